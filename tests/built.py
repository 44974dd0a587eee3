"""Prints the path of a target's program, from the messages of `cargo test --no-run --message-format json`.

    tests/built.py KIND NAME <MESSAGES
"""

import json
import sys

kind, name = sys.argv[1:]
messages = [json.loads(line) for line in sys.stdin]
programs = [it["executable"] for it in messages if it.get("executable")
            and kind in it["target"]["kind"] and it["target"]["name"] == name]
if len(programs) != 1:
    sys.exit(f"{len(programs)} programs are the {kind} {name}")
print(programs[0])
