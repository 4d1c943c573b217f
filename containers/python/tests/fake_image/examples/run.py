"""NVIDIA/TensorRT-LLM examples/run.py: arguments that the plan uses, and output."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import os

from fake_tool import Tool

tool = Tool(
    "check",
    "--max_output_len --log_level --engine_dir --tokenizer_dir --num_beams --top_k --top_p --temperature",
    "",
    "--input_text",
)
tool.require("engine_dir", "max_output_len")
if not (tool.folder("engine_dir") / "rank0.engine").is_file():
    sys.exit("no engine")
answer = os.environ.get("FAKE_ANSWER", " chef before moving to London in the early")
tool.end(
    "[TensorRT-LLM][INFO] MPI size: 1, MPI local size: 1, rank: 0",
    f'Input [Text 0]: "{tool.values.input_text[0]}"',
    f'Output [Text 0 Beam 0]: "{answer}"',
)
