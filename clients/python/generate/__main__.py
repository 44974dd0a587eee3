"""Writes src/postrider/_generated: `python -m generate http://127.0.0.1:8080` or a file."""

import json
import shutil
import sys
import urllib.request
from pathlib import Path
from typing import Any

from . import errors, inputs, models, resources
from .document import Document

PACKAGE = Path(__file__).resolve().parents[1]
TARGET = PACKAGE / "src/postrider/_generated"
NAMES = PACKAGE.parent / "operations.json"


def read(source: str) -> Any:
    if not source.startswith(("http://", "https://")):
        return json.loads(Path(source).read_text())
    url = source if source.endswith(".json") else source.rstrip("/") + "/openapi.json"
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)


def generate(source: str) -> None:
    document = Document(read(source), json.loads(NAMES.read_text()))
    files = {
        "__init__.py": '"""Made from /openapi.json; do not edit."""\n',
        "models.py": models.write(document),
        "inputs.py": inputs.write(document),
        "errors.py": errors.write(document),
        "resources.py": resources.write(document, is_async=False),
        "async_resources.py": resources.write(document, is_async=True),
    }
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    for name, text in files.items():
        (TARGET / name).write_text(text)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python -m {__package__} URL|FILE")
    generate(sys.argv[1])
