"""Stand-in for tools/fill_template.py of TensorRT-LLM 0.20: unknown keys fail, keys without value stay."""

import argparse
import re
from pathlib import Path
from string import Template

parser = argparse.ArgumentParser()
parser.add_argument("file_path", type=Path)
parser.add_argument("substitutions")
parser.add_argument("--in_place", "-i", action="store_true", required=True)
options = parser.parse_args()
text = options.file_path.read_text()
values = {}
for one in re.split(r"(?<!\\),", options.substitutions):
    key, value = (part.replace("\\", "") for part in re.split(r"(?<!\\):", one))
    assert key in text, f"key '{key}' does not exist in the file {options.file_path}."
    values[key] = value
options.file_path.write_text(Template(text).safe_substitute(values))
