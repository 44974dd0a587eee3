"""Puts what git does not hold into the packages: the generated code and the licence."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Hook(BuildHookInterface[Any]):
    """Runs before a package is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        source = os.environ.get("POSTRIDER_OPENAPI")
        if source:
            subprocess.run([sys.executable, "-m", "generate", source], cwd=root, check=True)
        if not (root / "src/postrider/_generated/models.py").exists():
            raise SystemExit(
                "there is no generated code: run `python -m generate URL|FILE` first, or set "
                "POSTRIDER_OPENAPI to the URL of a server or the file of its /openapi.json"
            )
        if not (root / "LICENSE").exists():
            shutil.copy(root.parents[1] / "LICENSE", root / "LICENSE")
