"""Stands in for tools/fill_template.py of one release: what it takes, refuses and writes is the same.

FAKE_FILL_TEMPLATE has its ways as JSON, as a set of infra/plan/catalogue/data/templates.json has them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from pathlib import Path

WAYS = json.loads(os.environ["FAKE_FILL_TEMPLATE"])


def parts(text: str, delimiter: str) -> list[str]:
    if not WAYS["escapesCommas"]:
        return text.split(delimiter)
    found = [""]
    characters = iter(text)
    for character in characters:
        if character == "\\":
            found[-1] += next(characters, "")
        elif character == delimiter:
            found.append("")
        else:
            found[-1] += character
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file_path", type=Path)
    parser.add_argument("substitutions")
    parser.add_argument("--in_place", "-i", action="store_true", required=True)
    options = parser.parse_args()
    text = options.file_path.read_text()
    values = dict.fromkeys(WAYS["defaults"], "0")
    for one in parts(options.substitutions, ","):
        key, value = parts(one, ":")
        if WAYS["refusesUnknownKeys"] and key not in text:
            raise AssertionError(f"key '{key}' does not exist in the file {options.file_path}.")
        values[key] = value
    # Comments too, and keys without a value stay.
    options.file_path.write_text(re.sub(r"\$\{(\w+)\}", lambda found: values.get(found[1], found[0]), text))


main()
