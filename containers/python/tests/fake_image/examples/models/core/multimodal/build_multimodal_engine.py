"""TensorRT-LLM's examples/models/core/multimodal/build_multimodal_engine.py: arguments, what it writes."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "lib"))

from fake_tool import Tool

tool = Tool(
    "vision",
    "--model_type --model_path --vila_path --output_dir --max_batch_size --max_hw_dims --min_hw_dims "
    "--num_mul_bins --max_mel_seq_len",
)
tool.require("model_type", "model_path")
if not (tool.folder("model_path") / "config.json").is_file():
    sys.exit("no model")
output = tool.folder("output_dir")
tool.write(output / "onnx" / "model.onnx")
tool.write(output / "model.engine")
tool.write_json(output / "config.json", {"builder_config": {"model_type": tool.values.model_type}})
(output / "onnx" / "model.onnx").unlink()
(output / "onnx").rmdir()
tool.end("[TensorRT-LLM] [I] Succeeded building", "[TensorRT-LLM] [I] Recording engine time")
