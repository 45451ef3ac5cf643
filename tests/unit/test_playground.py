"""The playground's route: what is served, to whom, and with which headers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit.asgi import ask
from tests.unit.whole_app import ManagedFake, app_before

FOLDER = Path(__file__).parents[2] / "app" / "playground"
FILES = sorted(path.name for path in FOLDER.iterdir() if path.name != "index.html")
PATHS = ["/", *(f"/playground/{name}" for name in FILES)]


def app(**settings: Any) -> Any:
    return app_before(ManagedFake(), **settings)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("settings", [{}, {"api_key": "k"}], ids=["no key", "key"])
async def test_everybody_gets_the_page(path: str, settings: dict[str, Any]) -> None:
    answer = await ask(app(**settings), path)
    name = path.rpartition("/")[2] or "index.html"
    assert answer.status == 200
    assert answer.body == (FOLDER / name).read_bytes()
    assert answer.header("x-content-type-options") == "nosniff"
    policy = (answer.header("content-security-policy") or "").split("; ")
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert not any("unsafe" in rule for rule in policy)
    kind = {"html": "text/html", "css": "text/css", "js": "text/javascript"}[name.split(".")[-1]]
    assert answer.header("content-type") == f"{kind}; charset=utf-8"


async def test_the_key_guards_everything_else() -> None:
    guarded = app(api_key="k")
    for path in ("/playground", "/playground/", "/playground/x.js", "/playground/../docs", "//"):
        assert (await ask(guarded, path)).status == 401
    assert (await ask(guarded, "/invocations", "POST")).status == 401


@pytest.mark.parametrize(
    "path", ["/playground/index.html", "/playground/none.js", "/playground/%2e%2e", "/playground/."]
)
async def test_no_other_file_is_served(path: str) -> None:
    assert (await ask(app(), path)).status == 404


async def test_unchanged_files_are_not_sent_again() -> None:
    served = app()
    tag = (await ask(served, "/")).header("etag")
    assert tag is not None
    again = await ask(served, "/", headers=[(b"if-none-match", tag.encode())])
    assert (again.status, again.body) == (304, b"")
    other = await ask(served, "/", headers=[(b"if-none-match", b'"other"')])
    assert other.status == 200


@pytest.mark.parametrize("settings", [{"playground": False}, {"invocations": "openai"}])
async def test_it_can_be_left_out(settings: dict[str, Any]) -> None:
    for path in PATHS:
        assert (await ask(app(**settings), path)).status == 404


async def test_it_only_reads() -> None:
    assert (await ask(app(), "/", "POST")).status == 405
    assert (await ask(app(), "/", "HEAD")).status == 200


def test_whatever_the_files_name_is_there() -> None:
    named = set(re.findall(r'"playground/([\w.]+)"', (FOLDER / "index.html").read_text()))
    for script in FOLDER.glob("*.js"):
        named |= set(re.findall(r'from "\./([\w.]+)"', script.read_text()))
    assert named == set(FILES)


@pytest.mark.parametrize("name", ["index.html", *FILES])
def test_nothing_comes_from_elsewhere_or_is_parsed_as_html(name: str) -> None:
    text = (FOLDER / name).read_text()
    for forbidden in ("://", "innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "style="):
        assert forbidden not in text
