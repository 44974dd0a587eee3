"""Writes a module for each document that shows TypeScript: all of its blocks, one after the other."""

import re
import sys
from pathlib import Path

DOCUMENTS = ["clients/typescript/README.md", "docs/first-steps.md"]

root, target = (Path(argument) for argument in sys.argv[1:3])
for name in DOCUMENTS:
    blocks = re.findall(r"^```ts\n(.*?)^```$", (root / name).read_text(), re.M | re.S)
    assert blocks, f"{name} shows no TypeScript"
    text = "\n".join(blocks).replace(
        '"http://127.0.0.1:8080"', 'process.env["POSTRIDER_SERVER"]!'
    )
    (target / f"document-{Path(name).parent.name}.ts").write_text(text)
