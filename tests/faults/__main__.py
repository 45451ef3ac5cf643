"""Measures every fault and writes the table in docs/reliability.md: ``python -m tests.faults``."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from tests.faults.scenarios import OF_SGLANG, SETTINGS, Fault, Seen, watch
from tests.process.server import ROOT, ServerProcess

DOCUMENT = ROOT / "docs" / "reliability.md"
HEADING = (
    "| fault | the open stream | noticed | answers again | questions lost | told to come back |\n"
    "|---|---|---|---|---|---|\n"
)


def main() -> None:
    """With the real engine, as `make serve` runs it."""
    rows = []
    with (
        tempfile.TemporaryDirectory() as folder,
        ServerProcess(Path(folder) / "server.log", **SETTINGS) as server,
    ):
        server.wait_for_text("Ready: http", within=300)
        for fault in OF_SGLANG:
            rows.append(row(fault, watch(server, fault)))
            print(rows[-1], end="", flush=True)
    text = DOCUMENT.read_text("utf-8")
    table = f"<!-- measured -->\n{HEADING}{''.join(rows)}<!-- /measured -->"
    text = re.sub("<!-- measured -->.*<!-- /measured -->", table, text, flags=re.DOTALL)
    DOCUMENT.write_text(text, encoding="utf-8")


def row(fault: Fault, seen: Seen) -> str:
    """One line of the table."""
    again = "ends with status 0" if not fault.survives else f"{seen.recovered:.1f} s"
    cells = (fault.name, seen.stream, f"{seen.noticed:.2f} s", again, len(seen.lost), seen.refused)
    return f"| {' | '.join(map(str, cells))} |\n"


if __name__ == "__main__":
    main()
