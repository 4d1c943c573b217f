/**
 * What VILA's code needs besides an image. all_models/multimodal/requirements-vila.txt, the same in every release, has
 * transformers 4.36.2, with which TensorRT-LLM itself can't be imported, and deepspeed and flash_attn, which the edited code does
 * not (requirement-steps.ts). This is the commit of 2025-02-08, the repository's last.
 */
export const S2_WRAPPER =
  "s2wrapper @ git+https://github.com/bfshi/scaling_on_scales.git@9c008a37540e761f53574b488979db6e49a64312";

/** s2wrapper imports it; requirements.txt of NVIDIA/TensorRT-LLM did not have it yet in 0.15 and 0.16. */
export const EINOPS = "einops==0.8.1";
