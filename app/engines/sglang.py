"""SGLang as our own child process: model found, process started, watched and ended."""

import asyncio
import json
import logging
import socket
from pathlib import Path

from app.engines.child import ChildProcess, guarded
from app.engines.host import gather
from app.engines.host_decisions import Decisions, decide, graphs_are_on
from app.engines.lifecycle import Phase, Status, warm_up
from app.engines.model_traits import choose_parsers
from app.engines.openai_http import OpenAIEngine
from app.engines.sglang_flags import Release, launch_argv, launch_environment
from app.errors import ChatServerError, EngineFailed
from app.settings import Settings, environment_of, has_nvidia_driver

log = logging.getLogger(__name__)

_PREPARE = Path(__file__).resolve().parent.parent / "models" / "prepare.py"
_POLL_INTERVAL = 0.5
_VERSION_CODE = "import importlib.metadata as m; print(m.version('sglang'))"


class SGLangEngine(OpenAIEngine):
    """One SGLang server on the loopback interface, for one model."""

    def __init__(self, settings: Settings) -> None:
        port = settings.engine_port or free_port()
        super().__init__(
            f"http://127.0.0.1:{port}",
            request_timeout=settings.request_timeout,
            idle_timeout=settings.idle_timeout,
        )
        self._settings = settings
        self._port = port
        self._child: ChildProcess | None = None
        self._running: asyncio.Task[None] | None = None
        self._failed = asyncio.Event()
        self._status = Status(Phase.STARTING, "not started yet")

    @property
    def status(self) -> Status:
        """Where the engine is, with its last log lines until it is ready."""
        if self._child is None or self._status.phase is Phase.READY:
            return self._status
        now = self._status
        return Status(now.phase, now.reason, now.since, self._child.tail[-5:])

    async def start(self) -> None:
        """Begin to bring the engine up."""
        self._running = asyncio.create_task(self._run())

    async def failure(self) -> str:
        """Wait until the engine has ended, or could not start, and say why."""
        await self._failed.wait()
        return self._status.reason

    async def stop(self) -> None:
        """End the engine's whole process group."""
        if self._status.phase is not Phase.FAILED:
            self._enter(Phase.STOPPING, "shutting down")
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})
        if self._child is not None:
            await self._child.stop(self._settings.engine_stop_timeout)
        await self.close()

    def _enter(self, phase: Phase, reason: str) -> None:
        self._status = Status(phase, reason)
        log.info("engine %s: %s", phase, reason)

    async def _run(self) -> None:
        try:
            async with asyncio.timeout(self._settings.engine_start_timeout):
                child = await self._bring_up()
        except ChatServerError as error:
            reason = error.message
        except TimeoutError:
            reason = "not ready within ENGINE_START_TIMEOUT"
        except Exception:
            log.exception("the engine could not be started")
            reason = "could not be started; see the log"
        else:
            reason = f"the engine ended with {_describe_exit(await child.wait())}"
        self._info = None
        self._enter(Phase.FAILED, reason)
        self._failed.set()

    async def _bring_up(self) -> ChildProcess:
        settings = self._settings
        python = settings.find_engine_python()
        self._enter(Phase.STARTING, f"looking for {settings.model}")
        release = await _installed_release(python)
        model_path, model_name = await self._prepare_model(python)
        device = settings.resolve_device()
        if device == "cuda" and not has_nvidia_driver():
            raise EngineFailed(
                "ENGINE_DEVICE is cuda, but no NVIDIA driver is to be seen: install it, give the "
                "container the GPU (NVIDIA container toolkit), or set ENGINE_DEVICE=cpu"
            )
        environment = launch_environment(environment_of(), python=python, device=device)
        host = Decisions()
        if device == "cuda":
            host = await self._look_at_host(python, environment, release)
            environment |= host.environment
        parsers = choose_parsers(
            model_path,
            is_new=release.is_new,
            tool_call=settings.tool_call_parser,
            reasoning=settings.reasoning_parser,
        )
        argv = launch_argv(
            settings,
            python=python,
            release=release,
            model_path=model_path,
            model_name=model_name,
            port=self._port,
            device=device,
            parsers=parsers,
            host_flags=host.flags,
        )
        self._enter(Phase.LOADING, f"{model_name} on {device}, SGLang {release.version}, {parsers}")
        child = self._child = await ChildProcess.start(argv, environment, "engine")
        await self._until_it_answers(child)
        self._enter(Phase.WARMING, "generating the first tokens")
        await warm_up(self)
        self._enter(Phase.READY, f"serving {model_name}")
        return child

    async def _look_at_host(
        self, python: Path, environment: dict[str, str], release: Release
    ) -> Decisions:
        """What the machine's GPUs and tools ask for.

        Raises:
            EngineFailed: the engine can't run here.
        """
        facts = await gather(python, environment)
        if facts is None:
            return Decisions()
        try:
            decisions = decide(facts, release, self._settings)
        except EngineFailed:
            log.info("host: %s", facts)
            raise
        graphs = "on" if graphs_are_on(self._settings.engine_argv) else "off (ENGINE_ARGS)"
        log.info("host: %s; decided: %s; CUDA graphs %s", facts, decisions, graphs)
        for finding in decisions.findings:
            log.warning("host: %s", finding)
        return decisions

    async def _prepare_model(self, python: Path) -> tuple[Path, str]:
        settings = self._settings
        argv = [str(python), str(_PREPARE)]
        argv += ["--model", settings.model, "--cache", str(settings.model_cache)]
        process = await asyncio.create_subprocess_exec(
            *guarded(argv),
            stdout=asyncio.subprocess.PIPE,
            # Its progress is for the terminal, and its last line says what went wrong.
            stderr=None,
            env=environment_of(),
            # Ctrl-C reaches us alone here too, or it would look like a model that can't be had.
            start_new_session=True,
        )
        try:
            output, _ = await process.communicate()
        except asyncio.CancelledError:
            process.terminate()
            await process.wait()
            raise
        if process.returncode != 0:
            raise EngineFailed(f"the model {settings.model} can't be had; see the lines above")
        found = json.loads(output.decode().strip().rsplit("\n", 1)[-1])
        name = settings.served_model_name or found["served_model_name"]
        return Path(found["path"]), str(name)

    async def _until_it_answers(self, child: ChildProcess) -> None:
        """Wait for the HTTP server, but no longer than the process lives.

        Raises:
            EngineFailed: the process ended; its last lines are in the log.
        """
        ended = asyncio.create_task(child.wait())
        try:
            while not ended.done():
                try:
                    await self.discover()
                except ChatServerError:
                    # Refused while it loads; later, some versions answer 503 or not at all.
                    await asyncio.wait({ended}, timeout=_POLL_INTERVAL)
                else:
                    return
        finally:
            ended.cancel()
        raise EngineFailed(f"the engine ended with {_describe_exit(ended.result())} while loading")


async def _installed_release(python: Path) -> Release:
    try:
        process = await asyncio.create_subprocess_exec(
            *(str(python), "-c", _VERSION_CODE),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment_of(),
        )
    except OSError as error:
        raise EngineFailed(f"ENGINE_PYTHON can't be run: {error.strerror}") from error
    output, _ = await process.communicate()
    if process.returncode != 0:
        raise EngineFailed(
            f"SGLang is not installed for {python}: run `make .venv-engine`, or set ENGINE_PYTHON "
            "or ENGINE_URL"
        )
    return Release(output.decode().strip())


def free_port() -> int:
    """A loopback port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _describe_exit(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"status {status}"
