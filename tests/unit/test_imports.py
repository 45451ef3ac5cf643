"""Who may import whom, and that importing does nothing else."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "app").rglob("*.py"))
HEAVY = {
    *("torch", "transformers", "sglang", "mlflow", "fastapi", "starlette", "uvicorn", "aiohttp"),
    *("jsonschema", "huggingface_hub", "numpy"),
}


def name_of(module: Path) -> str:
    return ".".join(module.relative_to(ROOT).with_suffix("").parts)


def imports(module: Path) -> Iterator[str]:
    """Dotted names of everything that is imported anywhere in a module."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def run_at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node that importing executes: all but the bodies of functions and of a main block."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and "__main__" in ast.unparse(child.test):
            continue
        yield child
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for evaluated in (*child.args.defaults, *child.args.kw_defaults):
                if evaluated is not None:
                    yield from (evaluated, *run_at_import(evaluated))
        else:
            yield from run_at_import(child)


def effects_of_import(code: str) -> list[str]:
    """What importing would read from the environment or set up for logging."""
    named = [
        ast.unparse(node.func if isinstance(node, ast.Call) else node)
        for node in run_at_import(ast.parse(code))
        if isinstance(node, ast.Call | ast.Attribute)
    ]
    names = ("os.environ", "os.getenv", "basicConfig", "dictConfig", "setLevel", "Settings")
    return [name for name in named if name.endswith(names)]


def test_the_modules_are_found() -> None:
    assert {"app.cli", "app.schemas.answer", "app.gateway.app"} <= set(map(name_of, MODULES))


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_the_directions_of_imports(module: Path) -> None:
    """The wrapper knows the app and not the other way round; schemas and engines are strangers."""
    forbidden = {"mlflow", "model_wrapper", "tests", "databricks"}
    name = name_of(module)
    below = {
        "app.schemas.": ("app.engines", "app.gateway", "app.service", "app.settings"),
        "app.engines.": ("app.schemas", "app.gateway", "app.service", "app.models"),
        "app.models.": ("app.engines", "app.gateway", "app.schemas", "app.service", "app.settings"),
        "app.service": ("app.gateway",),
        "app.errors": ("app.",),
        "app.events": ("app.",),
        "app.sse": ("app.",),
    }
    for start, others in below.items():
        if name.startswith(start):
            forbidden.update(others)
    found = [
        imported
        for imported in imports(module)
        if any(
            imported == each or imported.startswith(each.rstrip(".") + ".") for each in forbidden
        )
    ]
    assert found == []


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_importing_reads_no_environment_and_sets_nothing_up(module: Path) -> None:
    assert effects_of_import(module.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("code", "caught"),
    [
        ("import os\nX = os.environ.get('X')", True),
        ("def f(x=os.getenv('X')): pass", True),
        ("class A:\n    x = Settings()", True),
        ("logging.getLogger().setLevel(10)", True),
        ("def f():\n    return os.environ", False),
        ("class A(BaseSettings):\n    def f(self):\n        return os.environ", False),
        ("if __name__ == '__main__':\n    logging.basicConfig()", False),
    ],
)
def test_the_check_itself(code: str, caught: bool) -> None:
    assert bool(effects_of_import(code)) is caught


def loaded_by(module: str) -> set[str]:
    code = f"import json, sys, {module}; print(json.dumps([n.split('.')[0] for n in sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_command_line_loads_nothing_heavy() -> None:
    """So that --help and mistakes in settings answer at once."""
    assert loaded_by("app.cli") & HEAVY == set()


def test_schemas_and_service_need_no_server() -> None:
    """The MLflow model uses them where no gateway runs."""
    server = {"fastapi", "starlette", "uvicorn", "mlflow", "torch", "transformers", "sglang"}
    assert loaded_by("app.schemas.chat_agent_answer") & server == set()
    assert loaded_by("app.runtime") & server == set()


def test_the_app_loads_neither_mlflow_nor_an_engine() -> None:
    assert loaded_by("app.serve") & {"mlflow", "torch", "transformers", "sglang"} == set()
