"""NVIDIA/TensorRT-LLM examples/models/core/llama/convert_checkpoint.py, its arguments."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "lib"))

from fake_tool import convert

FLAGS = (
    "--model_dir --meta_ckpt_dir --tp_size --pp_size --cp_size --moe_tp_size --moe_ep_size --dtype "
    "--weight_only_precision --calib_dataset --calib_size --calib_max_seq_length --smoothquant "
    "--quant_ckpt_path --embedding_sharding_dim --group_size --output_dir --workers --moe_num_experts "
    "--moe_top_k --log_level --vocab_size --n_positions --n_layer --n_head --n_kv_head --n_embd "
    "--inter_size"
)
SWITCHES = (
    "--use_weight_only --disable_weight_only_quant_plugin --use_qserve --per_channel --per_token "
    "--per_group --int8_kv_cache --fp8_kv_cache --use_fp8 --use_nvfp4 --use_fp8_rowwise "
    "--load_by_shard --load_model_on_cpu --use_parallel_embedding --save_config_only "
    "--remove_duplicated_kv_heads"
)

convert(FLAGS, SWITCHES)
