/** How a configuration says in which way a model is asked: a profile in full, or the name of a usual one. */
import {
  IMAGE_KINDS,
  NAMED_PROFILES,
  type ProfileName,
  REQUEST_FLAVOURS,
  type RequestProfile,
} from "@engine-room/triton-requests";
import { z } from "zod";

/** A name that Triton has in its model repository: it becomes a part of a URL path. */
export const tritonName = z
  .string()
  .min(1)
  .max(128)
  .regex(/^[A-Za-z0-9_.-]+$/, "must be a Triton model or tensor name: letters, digits and . _ -");

export const tokenId = z
  .int()
  .min(0)
  .max(2 ** 31 - 1);

export const profileName = z.enum(Object.keys(NAMED_PROFILES) as [ProfileName, ...ProfileName[]]);

const imageProfileSchema = z.strictObject({
  accepts: z.array(z.enum(IMAGE_KINDS)).min(1).readonly(),
  maxImages: z.int().min(1),
  isRequired: z.boolean(),
  takesVideo: z.boolean(),
  mark: z.string().min(1).nullable(),
  prompt: z.string(),
  tokensPerImage: z.int().min(0),
});

/** The profile that the model's deployer hands out; every key of it. */
export const requestProfileSchema = z.strictObject({
  flavour: z.enum(REQUEST_FLAVOURS),
  tritonModel: tritonName,
  streamingModel: tritonName,
  seedField: z.enum(["seed", "random_seed"]),
  minTokensField: z.enum(["min_tokens", "min_length"]),
  promptEcho: z.enum(["excluded", "repeated"]),
  streamedText: z.enum(["delta", "cumulative"]),
  decoupled: z.boolean(),
  endId: tokenId.nullable(),
  padId: tokenId.nullable(),
  image: imageProfileSchema.nullable(),
  kvCacheReuse: z.boolean(),
}) satisfies z.ZodType<RequestProfile>;

/** Keys of a model that a profile replaces. */
export const SHORT_FORM_KEYS = ["tritonModel", "flavour", "endId", "padId"] as const;

interface ShortForm {
  readonly tritonModel: string | undefined;
  readonly flavour: ProfileName | undefined;
  readonly endId: number | undefined;
  readonly padId: number | undefined;
}

/** The profile of the short form. */
export function namedProfile({
  tritonModel = "ensemble",
  flavour = "inflight_batcher_llm",
  endId,
  padId,
}: ShortForm): RequestProfile {
  return {
    ...NAMED_PROFILES[flavour],
    tritonModel,
    streamingModel: tritonModel,
    endId: endId ?? null,
    padId: padId ?? null,
  };
}
