"""NVIDIA/TensorRT-LLM examples/models/core/multimodal/run.py: arguments and output."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "lib"))

import os

from fake_tool import Tool

tool = Tool(
    "check",
    "--max_new_tokens --batch_size --engine_dir --visual_engine_name --audio_engine_name --hf_model_dir "
    "--num_beams --top_k --top_p --temperature --repetition_penalty --profiling_iterations --video_path "
    "--video_num_frames --path_sep --prompt_sep --session --kv_cache_free_gpu_memory_fraction "
    "--cross_kv_cache_fraction --lora_task_uids --log_level",
    "--run_profiling --check_accuracy --enable_context_fmha_fp32_acc --enable_chunked_context "
    "--mm_embedding_offloading --multi_block_mode --debug_mode",
    "--input_text --image_path",
)
tool.require("engine_dir", "hf_model_dir")
engine = tool.folder("engine_dir")
for path in (
    engine / "llm" / "rank0.engine",
    engine / "vision" / "model.engine",
    *map(Path, tool.values.image_path),
):
    if not path.is_file():
        sys.exit(f"{path} is not there")
answer = os.environ.get("FAKE_ANSWER", "A cup of coffee on a red saucer")
tool.end(
    "[TensorRT-LLM][INFO] Engine version 0.20.0 found in the config file",
    "[07/15/2025-10:00:00] [TRT-LLM] [I] ---------------------------------------------------------",
    "[07/15/2025-10:00:00] [TRT-LLM] [I] ",
    f"[Q] {tool.values.input_text[0]}",
    "[07/15/2025-10:00:00] [TRT-LLM] [I] ",
    f"[A]: [{answer!r}]",
    "[07/15/2025-10:00:00] [TRT-LLM] [I] Generated 9 tokens",
)
