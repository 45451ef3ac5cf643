"""Whether the OpenAPI description is true: schemathesis asks what it allows, and what it does not.

All of schemathesis's checks are on. What is expected otherwise than by default, and why, is said in
``schemathesis.toml``, whose settings also make the requests the same in each run. Only the status
of an answer to a wrong content type schemathesis does not look up in the description; that it is
there, ``tests/unit/test_documentation.py`` tests.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter
from pathlib import Path

import aiohttp
import pytest

from tests.contract.gateway import new_client, running_gateway
from tests.faults.openapi_hooks import SERVED
from tests.replay import ReplayEngine

ROOT = Path(__file__).parents[2]
CONFIG = "tests/faults/schemathesis.toml"
KEY = "the-key"
AUTHORIZATION = {"Authorization": f"Bearer {KEY}"}
COUNTED = re.compile(r'^chat_server_requests_total\{route="(.+)",status="(.+)"\} (.+)$', re.M)
# The recorded engine knows no such model or response, nor these routes.
NEVER_FOUND = {
    *("/v1/models/{name}", "/v1/responses/{name}", "/v1/responses", "/v1/rerank", "/v1/score")
}


async def ask_everything(url: str, *arguments: str) -> str:
    """Run schemathesis; its report if it found nothing."""
    schemathesis = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schemathesis.cli", f"--config-file={CONFIG}"),
        *("run", f"{url}/openapi.json", "--no-color", *arguments),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    report = (await schemathesis.communicate())[0].decode()
    assert schemathesis.returncode == 0, report
    return report


async def answered(client: aiohttp.ClientSession, url: str) -> Counter[tuple[str, str]]:
    """How many requests each route answered with which class of status."""
    async with client.get(f"{url}/metrics") as metrics:
        found = COUNTED.findall(await metrics.text())
    # The router's form of a path also says which parameters may hold slashes.
    return Counter(
        {(route.replace(":path", ""), status): int(float(count)) for route, status, count in found}
    )


@pytest.mark.timeout(300)
async def test_the_description_is_true() -> None:
    async with (
        ReplayEngine(tool_call_parser="qwen25") as engine,
        running_gateway(engine, api_key=KEY) as url,
        new_client(headers=AUTHORIZATION) as client,
    ):
        async with client.get(f"{url}/v1/models") as models:
            assert (await models.json())["data"][0]["id"] == SERVED
        async with client.get(f"{url}/openapi.json") as description:
            paths = (await description.json())["paths"]
        await ask_everything(url, "-H", f"Authorization: {AUTHORIZATION['Authorization']}")
        counts = await answered(client, url)
    # Answers and refusals must both occur, or nothing was tried.
    for path, operations in paths.items():
        assert counts[path, "2xx"] > 0 or path in NEVER_FOUND, (path, counts)
        assert counts[path, "4xx"] > (20 if "post" in operations else 0), (path, counts)
    streamed = [each for each in engine.requests if each.wants_stream]
    assert {each.path for each in streamed} >= {"/v1/chat/completions", "/v1/completions"}
    # Those of /invocations carry what only the gateway adds.
    assert any("stream_options" in each.json for each in streamed)


@pytest.mark.timeout(300)
async def test_so_it_is_where_all_routes_are_openais() -> None:
    async with (
        ReplayEngine() as engine,
        running_gateway(engine, invocations="openai") as url,
        new_client() as client,
    ):
        await ask_everything(url, "--include-path", "/invocations")
        counts = await answered(client, url)
    assert counts["/invocations", "2xx"] > 0, counts
    assert counts["/invocations", "4xx"] > 20, counts
