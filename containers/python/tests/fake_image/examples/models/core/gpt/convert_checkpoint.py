"""NVIDIA/TensorRT-LLM examples/models/core/gpt/convert_checkpoint.py, its arguments."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "lib"))

from fake_tool import convert

FLAGS = (
    "--model_dir --nemo_ckpt_path --gpt_variant --tp_size --pp_size --dtype --weight_only_precision "
    "--smoothquant --calib_dataset --dataset_cache_dir --embedding_sharding_dim --output_dir "
    "--workers"
)
SWITCHES = (
    "--use_weight_only --int8_kv_cache --per_channel --per_token --use_parallel_embedding --load_model_on_cpu"
)

convert(FLAGS, SWITCHES)
