"""What the documents show in Python runs, and has the types that it should."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from server import Server

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = ["clients/python/README.md", "docs/first-steps.md"]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_does_what_it_shows(name: str, server: Server) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / name).read_text(), re.M | re.S)
    assert blocks, f"{name} shows no Python"
    program = server.directory / "document.py"
    program.write_text("\n".join(blocks).replace("http://127.0.0.1:8080", server.url))
    for command in (["-m", "mypy", "--strict"], []):
        ran = subprocess.run(
            [sys.executable, *command, program.name],
            cwd=server.directory,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ran.returncode == 0, f"{name}: {ran.stdout}{ran.stderr}"
