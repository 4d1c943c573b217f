/**
 * What `triton import --backend tensorrtllm` makes: `tensorrt_llm_bls` under the model's name, decoupled, with
 * `exclude_input_in_output` (triton_cli, src/triton_cli/trt_llm/engine_config_parser.py).
 *
 * Triton's /generate wants exactly one response ("generate expects model to produce exactly 1 response"). A request without
 * `stream` gets one, decoupled or not, so it goes to /generate, as the Llama-2 tutorial of Triton does with such a model.
 */
import { inflightBatcherLlm } from "./inflight-batcher-llm.ts";
import type { Flavour } from "./types.ts";

export const tritonCli: Flavour = inflightBatcherLlm;
