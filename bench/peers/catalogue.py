"""Who is measured, how each is started, and what each speaks.

Everybody runs with the defaults that its documentation shows, one worker, without a debugger or a
profiler. What differs from that is said beside it.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Server:
    """How a server is started.

    In its command, preparation and variables, ``{python}`` stands for its own Python and ``{bin}``
    for that one's folder; ``{port}`` for where it shall listen, ``{second_port}`` for one more;
    ``{engine}`` for the engine's base URL; ``{key}`` for the API key that clients send; ``{model}``
    for the model's name; ``{peers}`` for the folder of this file, ``{root}`` for the repository's
    and ``{work}`` for one to write to.

    Attributes:
        environment: X of ``requirements/bench-X.txt``; None for our own packages.
        prepare: run to its end before the command, while the engine already answers.
    """

    environment: str | None
    command: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)
    prepare: tuple[str, ...] = ()


@dataclass(frozen=True)
class Peer:
    """A row of the report: a server, and the language it is asked in.

    Attributes:
        server: a process of its own; None for the engine itself.
        speaks: ``openai``, ``chat-agent`` or ``responses``: the body it takes.
        streams: False for servers that answer a request for a stream with a whole answer.
    """

    name: str
    server: Server | None
    speaks: str
    streams: bool = True

    @property
    def path(self) -> str:
        """Where it takes requests."""
        return "/v1/chat/completions" if self.speaks == "openai" else "/invocations"


_CLIENT = {"BENCH_ENGINE": "{engine}/v1", "BENCH_MODEL": "{model}"}
_MLFLOW = {**_CLIENT, "MLFLOW_DISABLE_TELEMETRY": "true", "GIT_PYTHON_REFRESH": "quiet"}
_AGENT_SERVER_COMMAND = (
    *("{python}", "-m", "uvicorn", "agentserver:app", "--app-dir", "{peers}"),
    *("--host", "127.0.0.1", "--port", "{port}"),
)

# As users run it: with a key, so that it is checked; all else, limits and metrics included, is
# the default.
_GATEWAY = Server(
    None,
    ("{python}", "-m", "app", "serve"),
    {"PYTHONPATH": "{root}", "PORT": "{port}", "ENGINE_URL": "{engine}", "API_KEY": "{key}"},
)

_NAIVE = Server(
    "naive",
    (
        *("{python}", "-m", "uvicorn", "naive:app", "--app-dir", "{peers}"),
        *("--host", "127.0.0.1", "--port", "{port}"),
    ),
    _CLIENT,
)

_MLFLOW_SERVE = Server(
    "mlflow",
    (
        *("{bin}/mlflow", "models", "serve", "--env-manager", "local", "--workers", "1"),
        *("--model-uri", "{work}/mlflow-model", "--host", "127.0.0.1", "--port", "{port}"),
    ),
    _MLFLOW,
    prepare=("{python}", "{peers}/save_mlflow_model.py", "{work}/mlflow-model"),
)

# MLflow traces every request by default.
_AGENT_SERVER = Server(
    "mlflow",
    _AGENT_SERVER_COMMAND,
    {**_MLFLOW, "MLFLOW_TRACKING_URI": "sqlite:///{work}/agentserver.db"},
)

_AGENT_SERVER_UNTRACED = Server(
    "mlflow", _AGENT_SERVER_COMMAND, {**_MLFLOW, "BENCH_TRACING": "off"}
)

_LITELLM = Server(
    "litellm",
    (
        *("{bin}/litellm", "--config", "{peers}/litellm.yaml", "--num_workers", "1"),
        *("--host", "127.0.0.1", "--port", "{port}"),
    ),
    {
        "BENCH_ENGINE": "{engine}/v1",
        "LITELLM_MASTER_KEY": "{key}",
        # What LiteLLM recommends for production; the price list comes with the package.
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_LOG": "ERROR",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    },
)

_SGLANG_ROUTER = Server(
    "sglang-router",
    (
        *("{python}", "-m", "sglang_router.launch_router", "--worker-urls", "{engine}"),
        *("--host", "127.0.0.1", "--port", "{port}", "--log-level", "warn"),
        # It always opens a second port for its metrics, 29000 unless told.
        *("--prometheus-port", "{second_port}"),
    ),
)

PEERS = (
    Peer("direct", None, "openai"),
    Peer("ours", _GATEWAY, "chat-agent"),
    Peer("ours-v1", _GATEWAY, "openai"),
    Peer("naive", _NAIVE, "chat-agent"),
    Peer("mlflow-serve", _MLFLOW_SERVE, "chat-agent", streams=False),
    Peer("agentserver", _AGENT_SERVER, "responses"),
    Peer("agentserver-untraced", _AGENT_SERVER_UNTRACED, "responses"),
    Peer("litellm", _LITELLM, "openai"),
    Peer("sglang-router", _SGLANG_ROUTER, "openai"),
)
