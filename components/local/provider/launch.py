"""Becomes the program that a record describes: `launch.py RECORD.json`, run by supervisord.

The record is JSON: {"argv": [...], "environment": {...}, "pathPrefix": "..."}.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def main(record_path: str) -> None:
    record = json.loads(Path(record_path).read_text(encoding="utf-8"))
    # One byte for each start.
    with Path(record_path).with_suffix(".starts").open("ab") as starts:
        starts.write(b".")
    # supervisord's variables are useless to its children.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SUPERVISOR_")}
    environment["PATH"] = f"{record['pathPrefix']}:{environment.get('PATH', os.defpath)}"
    environment.update(record["environment"])
    argv = record["argv"]
    try:
        os.execvpe(argv[0], argv, environment)  # noqa: S606
    except OSError as error:
        sys.exit(f"{argv[0]} cannot be started: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1])
