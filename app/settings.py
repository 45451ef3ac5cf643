"""Every setting of the server in one frozen class, read from the environment and checked once.

Names of environment variables are the field names in capitals (``PORT``, ``MODEL``, …).
Durations are seconds, sizes are bytes unless the name says otherwise.
"""

import os
import shlex
import shutil
import sys
from ipaddress import ip_address
from pathlib import Path
from typing import Literal

from pydantic import Field, HttpUrl, SecretStr, TypeAdapter, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

DEFAULT_MODEL = "smollm2-135m-instruct"

_URL = TypeAdapter(HttpUrl)


class Settings(BaseSettings):
    """Settings of gateway and engine; ``Settings()`` reads the environment."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="ignore",
        env_ignore_empty=True,
        allow_inf_nan=False,  # neither timers nor the arithmetic of sizes can take them
    )

    # The gateway
    host: str = Field("127.0.0.1", description="Address that the gateway listens on.")
    port: int = Field(8080, ge=0, le=65535, description="Port of the gateway; 0 takes a free one.")
    api_key: SecretStr | None = Field(
        None,
        description="When set, every route but the health routes and the page at / asks for it.",
    )
    api_key_file: Path | None = Field(
        None, description="More keys, one a line; read again whenever it changes."
    )
    allow_no_api_key: bool = Field(
        False, description="Serve without a key even where others can reach the server."
    )
    published_on: str | None = Field(
        None,
        description="Address that others reach the server on, where that is not HOST: the host's "
        "side of a container's published port.",
    )
    media_hosts: str = Field(
        "", description="Hosts, separated by commas, that the engine may fetch media from."
    )
    invocations: Literal["chat-agent", "openai"] = Field(
        "chat-agent",
        description="What POST /invocations speaks: MLflow's ChatAgent, or OpenAI's chat.",
    )
    playground: bool = Field(
        True, description="Serve a page at / to chat with the model; not with INVOCATIONS=openai."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="How much the gateway logs."
    )
    max_body_bytes: int = Field(
        16 * 2**20, gt=0, description="Largest request body; Databricks takes 16 MiB."
    )
    max_messages: int = Field(2048, gt=0, description="Most messages in one request.")
    max_concurrent_requests: int | None = Field(
        None,
        gt=0,
        description="Requests in the engine at once; 64 for our own on a CPU, else 1024.",
    )
    max_queued_requests: int = Field(
        1024, ge=0, description="Requests that may wait for their turn; more are refused with 429."
    )
    queue_timeout: float = Field(
        60.0, gt=0, description="Seconds that a request may wait for its turn."
    )
    max_requests_per_key: int | None = Field(
        None, gt=0, description="Open requests of one API key, waiting ones included."
    )
    request_timeout: float = Field(
        600.0, gt=0, description="Seconds that one whole answer may take, from its turn on."
    )
    idle_timeout: float = Field(
        120.0, gt=0, description="Seconds that the engine may be silent inside a stream."
    )
    keep_alive_interval: float = Field(
        10.0, gt=0, description="Seconds between blank lines in a stream that waits for the engine."
    )
    receive_timeout: float = Field(
        60.0, gt=0, description="Seconds that a client may take for its headers, and for its body."
    )
    slow_client_timeout: float = Field(
        60.0, gt=0, description="Seconds that a client may leave what was written to it unread."
    )
    shutdown_delay: float = Field(
        0.0,
        ge=0,
        description="Seconds after SIGTERM in which new requests are still taken, while "
        "/health/ready says no.",
    )
    shutdown_grace: float = Field(
        30.0, ge=0, description="Seconds that open requests get to finish after SIGTERM."
    )

    # The model
    model: str = Field(
        DEFAULT_MODEL, min_length=1, description="Built-in name, local folder or hub id."
    )
    served_model_name: str | None = Field(
        None, description="Name in /v1/models; by default derived from MODEL."
    )
    model_cache: Path = Field(
        Path("~/.cache/chat-server/models"), description="Where converted models are kept."
    )

    # The engine
    engine_url: str | None = Field(
        None, description="An OpenAI-compatible server that already runs; none is started then."
    )
    engine_api_key: SecretStr | None = Field(None, description="Bearer token for ENGINE_URL.")
    engine_python: Path | None = Field(
        None, description="Python of the engine's environment; found by itself when unset."
    )
    engine_port: int = Field(
        0, ge=0, le=65535, description="Loopback port of the engine; 0 takes a free one."
    )
    engine_device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="auto: cuda where an NVIDIA driver answers, else cpu."
    )
    engine_args: str = Field(
        "", description="More arguments for sglang.launch_server, quoted as in a shell."
    )
    engine_start_timeout: float = Field(
        1800.0, gt=0, description="Seconds that the engine may take to load and warm up."
    )
    engine_stop_timeout: float = Field(
        8.0, gt=0, description="Seconds between SIGTERM and SIGKILL of the engine."
    )
    engine_max_restarts: int = Field(
        3,
        ge=0,
        description="Times in a row that a lost engine is started again before the server ends.",
    )
    engine_hang_timeout: float = Field(
        120.0,
        gt=0,
        description="Seconds without a sign of life after which the engine is replaced.",
    )
    tool_call_parser: str | None = Field(
        None, description="SGLang's parser for tool calls; chosen from the model when unset."
    )
    reasoning_parser: str | None = Field(
        None, description="SGLang's parser for reasoning; chosen from the model when unset."
    )
    context_length: int | None = Field(None, gt=0, description="Tokens; the model's own if unset.")
    mem_fraction_static: float | None = Field(
        None, gt=0, lt=1, description="Share of GPU memory for weights and KV cache."
    )
    cuda_graph_max_bs: int | None = Field(
        None, gt=0, description="Largest batch that CUDA graphs are captured for."
    )
    max_total_tokens: int | None = Field(
        None, gt=0, description="Tokens in the KV cache; 16384 on a CPU, else the engine's choice."
    )

    @field_validator("log_level", "engine_device", mode="before")
    @classmethod
    def _in_any_case(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @field_validator("engine_url")
    @classmethod
    def _engine_url_is_http(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            url = _URL.validate_python(value)
        except ValidationError:
            raise ValueError(
                "must be an http(s) URL such as http://127.0.0.1:30000; for a model name or "
                "folder use MODEL"
            ) from None
        if url.username or url.password or url.query or url.fragment:
            raise ValueError(
                "must be no more than scheme, host, port and path; a key goes into ENGINE_API_KEY"
            )
        return value.rstrip("/").removesuffix("/v1")

    @field_validator("engine_args")
    @classmethod
    def _engine_args_are_quoted_well(cls, value: str) -> str:
        try:
            shlex.split(value)
        except ValueError as error:
            raise ValueError(f"can't be split into arguments: {error}") from None
        return value

    @field_validator("model_cache")
    @classmethod
    def _expand_home(cls, value: Path) -> Path:
        return value.expanduser()

    @property
    def asks_for_key(self) -> bool:
        """Whether requests need an API key."""
        return self.api_key is not None or self.api_key_file is not None

    @property
    def is_open(self) -> bool:
        """Whether others than this machine's users can ask without a key."""
        return not self.asks_for_key and not _is_loopback(self.published_on or self.host)

    @property
    def allowed_media_hosts(self) -> frozenset[str]:
        """``media_hosts`` as a set."""
        return frozenset(host.strip().lower() for host in self.media_hosts.split(",")) - {""}

    @property
    def engine_argv(self) -> list[str]:
        """``engine_args`` as a list."""
        return shlex.split(self.engine_args)

    def find_engine_python(self) -> Path:
        """Interpreter that has SGLang: the setting, ``.venv-engine`` beside us, or this one."""
        if self.engine_python is not None:
            return self.engine_python
        beside = Path(__file__).resolve().parent.parent / ".venv-engine" / "bin" / "python"
        return beside if beside.exists() else Path(sys.executable)

    def resolve_concurrency(self) -> int:
        """How many requests may be in the engine at once.

        Twice the largest batch (512) that SGLang captures CUDA graphs for by itself, so that its
        scheduler always finds the next request at hand; what it can't run at once waits inside
        it, and there without a bound. On a CPU 64 share a hundred tokens a second already.
        """
        if self.max_concurrent_requests is not None:
            return self.max_concurrent_requests
        own_on_cpu = self.engine_url is None and self.resolve_device() == "cpu"
        return 64 if own_on_cpu else 1024

    def resolve_device(self) -> Literal["cpu", "cuda"]:
        """The device that ``auto`` stands for on this machine."""
        if self.engine_device != "auto":
            return self.engine_device
        return "cuda" if has_nvidia_driver() else "cpu"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def has_nvidia_driver() -> bool:
    """Whether an NVIDIA driver is there, seen from inside a container too."""
    return Path("/dev/nvidiactl").exists() or shutil.which("nvidia-smi") is not None


def environment_of(base: dict[str, str] | None = None, **changes: str) -> dict[str, str]:
    """A copy of the environment for a child process, without our own secrets."""
    # Settings are read in whatever case they are written.
    secrets = ("API_KEY", "ENGINE_API_KEY")
    inherited = os.environ if base is None else base
    environment = {name: value for name, value in inherited.items() if name.upper() not in secrets}
    return environment | changes
