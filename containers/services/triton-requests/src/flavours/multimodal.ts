/**
 * `ensemble` and `tensorrt_llm_bls` of all_models/multimodal over all_models/inflight_batcher_llm.
 *
 * The multimodal guide of tensorrtllm_backend nests the options in `parameters`. Triton's generate extension reads that
 * object like the top level: a name that is an input becomes a tensor, any other a request parameter. So everything is at
 * the top here.
 */
import { promptTableExtraId } from "../image-id.ts";
import { type SentImage, urlField } from "../images.ts";
import type { RequestProfile } from "../profile.ts";
import type { Fields, GenerationRequest } from "../request.ts";
import { streamField, textFields } from "./tensorrt-llm-fields.ts";
import type { Flavour } from "./types.ts";

export const multimodal: Flavour = {
  missingOptions: [],
  textOutput: "text_output",
  fields: (profile, request, images) => ({
    ...textFields(profile, request),
    ...urlField("image_url_input", images),
    ...cacheFields(profile, request, images),
    ...streamField(profile, request),
  }),
};

function cacheFields(
  profile: RequestProfile,
  request: GenerationRequest,
  images: readonly SentImage[],
): Fields {
  const isText = images.length === 0 && request.videoFrames === undefined;
  if (!profile.kvCacheReuse || isText) return {};
  return { prompt_table_extra_id: promptTableExtraId(request, images) };
}
