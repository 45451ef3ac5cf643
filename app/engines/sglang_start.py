"""What happens before SGLang runs: its version, the model, the host, its command line."""

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path

from app.engines.child import ChildProcess, guarded
from app.engines.host import gather
from app.engines.host_decisions import Decisions, decide, graphs_are_on
from app.engines.model_traits import choose_parsers
from app.engines.phases import Phase
from app.engines.sglang_flags import Release, launch_argv, launch_environment
from app.errors import EngineFailed
from app.settings import Settings, environment_of, has_nvidia_driver

log = logging.getLogger(__name__)

_PREPARE = Path(__file__).resolve().parent.parent / "models" / "prepare.py"
_VERSION_CODE = "import importlib.metadata as m; print(m.version('sglang'))"


async def start_sglang(
    settings: Settings, port: int, enter: Callable[[Phase, str], None]
) -> tuple[ChildProcess, str]:
    """Find the model and start the engine's process.

    Args:
        settings: of the engine.
        port: on the loopback interface.
        enter: told of each phase that begins.

    Returns:
        The process, which is still to load, and the model's name.

    Raises:
        EngineFailed: it can't be started here.
    """
    python = settings.find_engine_python()
    enter(Phase.STARTING, f"looking for {settings.model}")
    release = await _installed_release(python)
    model_path, model_name = await _prepare_model(settings, python)
    if "--trust-remote-code" in settings.engine_argv:
        log.warning("ENGINE_ARGS has --trust-remote-code: Python code of the model is run")
    device = settings.resolve_device()
    if device == "cuda" and not has_nvidia_driver():
        raise EngineFailed(
            "ENGINE_DEVICE is cuda, but no NVIDIA driver is to be seen: install it, give the "
            "container the GPU (NVIDIA container toolkit), or set ENGINE_DEVICE=cpu"
        )
    environment = launch_environment(environment_of(), python=python, device=device)
    host = Decisions()
    if device == "cuda":
        host = await _look_at_host(settings, python, environment, release)
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
        port=port,
        device=device,
        parsers=parsers,
        host_flags=host.flags,
    )
    enter(Phase.LOADING, f"{model_name} on {device}, SGLang {release.version}, {parsers}")
    return await ChildProcess.start(argv, environment, "engine"), model_name


async def _look_at_host(
    settings: Settings, python: Path, environment: dict[str, str], release: Release
) -> Decisions:
    """What the machine's GPUs and tools ask for.

    Raises:
        EngineFailed: the engine can't run here.
    """
    facts = await gather(python, environment)
    if facts is None:
        return Decisions()
    try:
        decisions = decide(facts, release, settings)
    except EngineFailed:
        log.info("host: %s", facts)
        raise
    graphs = "on" if graphs_are_on(settings.engine_argv) else "off (ENGINE_ARGS)"
    log.info("host: %s; decided: %s; CUDA graphs %s", facts, decisions, graphs)
    for finding in decisions.findings:
        log.warning("host: %s", finding)
    return decisions


async def _prepare_model(settings: Settings, python: Path) -> tuple[Path, str]:
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
