/** Every kind of repository that serves an engine. */
import type { Flavour } from "../../catalogue/types.ts";
import type { FlavourDefinition } from "./flavour.ts";
import { gpt } from "./gpt.ts";
import { inflightBatcher } from "./inflight-batcher.ts";
import { llava } from "./llava.ts";
import { multimodal } from "./multimodal.ts";
import { tritonCli } from "./triton-cli.ts";

/** Without `llmapi`, which has no engine; see llmapi.ts. */
export const flavours: Readonly<Record<Exclude<Flavour, "llmapi">, FlavourDefinition>> = {
  inflight_batcher_llm: inflightBatcher,
  multimodal,
  llava,
  gpt,
  tritonCli,
};
