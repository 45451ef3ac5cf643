"""Known texts of failures, with what is behind each and what to do.

Databricks words its errors without promise; so a text is recognised by its telling part, and the
platform's own words are always shown beside our guess. Where each comes from is in
``docs/databricks.md``, which a test compares with this table.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class KnownFailure:
    """A recognisable text, its likely cause, and the way out."""

    text: str
    cause: str
    fix: str
    pattern: str = ""
    vague: bool = False
    """Whether it is what is said of many failures, and anything else known tells more."""

    def matches(self, message: str) -> bool:
        """Whether the message has the telling part, in whatever case."""
        return re.search(self.pattern or re.escape(self.text), message, re.IGNORECASE) is not None


# The first that matches is taken: the particular ones stand before the general ones.
KNOWN_FAILURES = (
    KnownFailure(
        "Missing feedback served model",
        "The endpoint check for agents (task agent/v2/chat) wants a second model for feedback, "
        "which only databricks.agents.deploy() adds, and that can't place a model on a GPU.",
        "Log the model again with --task llm/v1/chat and deploy that version.",
    ),
    KnownFailure(
        "This endpoint does not support streaming",
        "The endpoint does not count the model as one that streams: its task is not an agent's, or "
        "it was logged with an MLflow before 2.20.2.",
        "Ask without --stream, or log it again with its own task (leave --task out) or as "
        "--interface responses-agent.",
    ),
    KnownFailure(
        "Workload type 'GPU_MEDIUM' with size 'Small' is not supported",
        "This cloud or region has no such compute.",
        "Choose another --workload; on Azure, GPU_LARGE.",
        r"workload type .* is not supported",
    ),
    KnownFailure(
        "No space left on device",
        "The weights are too large to be copied into the container image.",
        "Keep them in a Unity Catalog Volume and log the model with that path instead of a copy.",
    ),
    KnownFailure(
        "CUDA out of memory",
        "Weights, CUDA graphs and cache do not fit on the GPU.",
        "A larger --workload, a quantized model, or --env MEM_FRACTION_STATIC=0.8 "
        "--env CONTEXT_LENGTH=8192.",
        r"cuda out of memory|OutOfMemoryError|not enough memory.*mem-fraction-static",
    ),
    KnownFailure(
        "no kernel image is available",
        "The GPU is older than what the engine's kernels were compiled for (GPU_SMALL is a T4).",
        "Choose --workload GPU_MEDIUM (AWS) or GPU_LARGE (Azure).",
    ),
    KnownFailure(
        "CUDA driver version is insufficient",
        "The engine was built for a newer CUDA than the driver of the endpoint.",
        "Log the model again with --engine cu124.",
        r"driver version is insufficient|nvidia driver .* is too old|cuda>=",
    ),
    KnownFailure(
        "CUDA_HOME environment variable is not set",
        "A kernel was to be compiled at run time, and the container has no CUDA toolkit.",
        "Log the model again with this release's own requirements, whose kernels are prebuilt.",
    ),
    KnownFailure(
        "No such file or directory: 'ninja'",
        "A kernel was to be compiled at run time, and the container lacks the build tool.",
        "Log the model again with this release's own requirements, whose kernels are prebuilt.",
    ),
    KnownFailure(
        "'FastAPI' object has no attribute 'route'",
        "An MLflow from 2.21 to 3.9 together with starlette 1.0.",
        "Log the model again with the locked requirements, or with starlette<1.",
    ),
    KnownFailure(
        "FATAL FIPS SELFTEST FAILURE",
        "A library with its own OpenSSL does not start in Databricks' FIPS mode.",
        "Remove packages that bring their own OpenSSL (opencv is one) from the requirements.",
    ),
    KnownFailure(
        "cannot build the container image",
        "The model asks for mlflow-skinny, from which no serving container can be built.",
        "Log it again with this tool, which asks for mlflow in full.",
        r"mlflow-skinny.*(cannot|can't|not supported)|cannot build the container image",
    ),
    KnownFailure(
        "No matching distribution found",
        "A pinned package has no release for the endpoint's Python or for its package index.",
        "Log the model again with the Python that Databricks uses (3.11 or 3.12) and the locked "
        "requirements; name a private index with --extra-index-url.",
        r"no matching distribution|could not find a version|ResolutionImpossible"
        r"|ResolvePackageNotFound|no solution found",
    ),
    KnownFailure(
        "No module named",
        "The container lacks a package that the model imports.",
        "Check the model with `python -m model_wrapper validate`, then log it again.",
    ),
    KnownFailure(
        "Secret does not exist",
        "The endpoint's creator can't read a secret that an environment variable refers to.",
        "Check the scope and key, and give the endpoint's creator READ on the scope.",
        r"secret.*(does not exist|not found|no such|permission)",
    ),
    KnownFailure(
        "Invalid access token",
        "The token has expired, was revoked, or belongs to another workspace.",
        "Make a new one, or sign in again; DATABRICKS_HOST must be the workspace that it is for.",
    ),
    KnownFailure(
        "PERMISSION_DENIED",
        "A grant is missing. What an endpoint reads, it reads as its creator, who is fixed when "
        "it is made, whoever the caller is.",
        "Give the creator USE CATALOG, USE SCHEMA and EXECUTE on the model. If it has left the "
        "workspace, delete the endpoint and deploy again as somebody else.",
        r"PERMISSION_DENIED|does not have (EXECUTE|USE)|is not authorized|lacks? .*permission",
    ),
    KnownFailure(
        "Exceeded max number of parallel requests",
        "More requests at once than the endpoint's size takes; a GPU replica is offered four.",
        "Ask again later, or deploy with a larger --size.",
        r"too many concurrent requests|exceeded max number of parallel requests",
    ),
    KnownFailure(
        "quota",
        "The workspace's limit for GPUs or for concurrency is used up.",
        "Delete endpoints that are not needed, take a smaller --size, or ask Databricks to raise "
        "the limit.",
        r"quota|RESOURCE_EXHAUSTED|limit .*exceeded|exceeds? .*limit",
    ),
    KnownFailure(
        "update is in progress",
        "An earlier change of the endpoint is not through yet.",
        "Wait for it: `python -m model_wrapper status NAME --wait`.",
        r"update .*in progress|is (currently )?being updated",
    ),
    KnownFailure(
        "timed out",
        "Databricks gave the container up: it waits 30 minutes on CPUs, 60 on small and medium "
        "GPUs, 120 on large ones, counted from the end of the build.",
        "Read the service log for what took so long; weights from a Volume load faster than from "
        "a hub.",
        vague=True,
    ),
)


def explain(*texts: str) -> KnownFailure | None:
    """The first known failure in the texts, which are searched in their order.

    A vague one counts only where no text has another: that a deployment timed out is said of every
    container that does not come up, whatever its log has.
    """
    found = [known for text in texts for known in KNOWN_FAILURES if known.matches(text)]
    return next((known for known in found if not known.vague), next(iter(found), None))
