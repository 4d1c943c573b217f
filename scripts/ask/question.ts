/** A question to a model of a stack: what a user typed, and how the model and its endpoint take it. */

import { readFileSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { isHttpUrl, type RequestProfile, requestProfile } from "@engine-room/triton-requests";
import { cpuGoldenQuestions } from "../../infra/plan/catalogue/cpu-models.ts";
import type { GoldenQuestion } from "../../infra/plan/catalogue/types.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { nearestName } from "../../infra/problems.ts";
import { UsageError, UserError } from "../errors.ts";

export interface Question {
  /** Name in the stack. */
  readonly model: string;
  readonly text: string;
  readonly images: readonly AskedImage[];
  readonly maxTokens: number;
  readonly stream: boolean;
}

/** An address that the server fetches, or a file of this machine. */
export type AskedImage =
  | { readonly kind: "url"; readonly url: string }
  | {
      readonly kind: "file";
      /** As it was typed, so that a printed command finds it from the same folder. */
      readonly path: string;
      readonly base64: string;
      readonly mediaType: string;
    };

/** Above it no server of a stack takes a request: Triton's own limit is 64 MiB, and base64 makes a third more. */
const LARGEST_IMAGE_MIB = 40;

/**
 * Reads `--image`.
 * @param directory - What a relative path starts from.
 * @throws UserError for a file that is missing, too large, or no picture.
 */
export function askedImage(given: string, directory: string): AskedImage {
  if (isHttpUrl(given)) return { kind: "url", url: given };
  const path = resolve(directory, given);
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats?.isFile() !== true) {
    throw new UserError(`There is no file ${path}; give --image a picture's path or its http(s) address.`);
  }
  if (stats.size > LARGEST_IMAGE_MIB * 2 ** 20) {
    throw new UserError(
      `${path} has ${(stats.size / 2 ** 20).toFixed(0)} MiB, and no server takes more than ${LARGEST_IMAGE_MIB}; make the picture smaller.`,
    );
  }
  const bytes = readFileSync(path);
  const mediaType = mediaTypeOf(bytes);
  if (mediaType === undefined) {
    throw new UserError(`${path} does not begin like a JPEG, PNG or WebP file; send one of these.`);
  }
  return { kind: "file", path: given, base64: bytes.toString("base64"), mediaType };
}

/** @throws UsageError for what is no number of tokens. */
export function askedTokens(given: string): number {
  if (/^[1-9]\d{0,5}$/.test(given)) return Number(given);
  throw new UsageError(`--max-tokens ${given} is no number of tokens; give a whole one from 1 to 999999.`);
}

/** As a data URL, or the address itself. */
export function imageUrl(image: AskedImage): string {
  return image.kind === "url" ? image.url : `data:${image.mediaType};base64,${image.base64}`;
}

function mediaTypeOf(bytes: Uint8Array): string | undefined {
  const head = Buffer.from(bytes.subarray(0, 12)).toString("latin1");
  if (head.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (head.startsWith("\x89PNG\r\n\x1a\n")) return "image/png";
  return head.startsWith("RIFF") && head.endsWith("WEBP") ? "image/webp" : undefined;
}

export const ENDPOINTS = ["triton", "gateway"] as const;
export type AskedEndpoint = (typeof ENDPOINTS)[number];

/**
 * The gateway for a question in words to a model with a chat template: such a model ends a bare text at once. Triton for all else:
 * a question about pictures has the model's prompt around it there too, and takes pictures by their address.
 *
 * @param isOverGrpc - Which the gateway does not speak.
 */
export function usualEndpoint(
  plan: StackPlan,
  { model, images }: Pick<Question, "model" | "images">,
  isOverGrpc: boolean,
): AskedEndpoint {
  return !isOverGrpc && images.length === 0 && asked(plan, model).chats ? "gateway" : "triton";
}

/** How a model of the plan is asked. */
export interface Asked {
  readonly profile: RequestProfile;
  /** Its own question. A build's check may have another one; requests to a server choose theirs. */
  readonly golden: GoldenQuestion;
  /** Whether the gateway has a chat template for it. */
  readonly chats: boolean;
}

/** @throws UserError for a model that the plan lacks. */
export function asked(plan: StackPlan, name: string): Asked {
  if (plan.tier === "gpu") {
    const { request, spec } = named(plan.models, name);
    const { golden, chat } = spec.engine.row;
    return { profile: request, golden, chats: chat !== undefined };
  }
  const { model, catalogue } = named(plan.models, name);
  const { endId, padId } = catalogue;
  const profile = requestProfile("inflight_batcher_llm", { endId, padId });
  return { profile, golden: cpuGoldenQuestions[model], chats: true };
}

/** @throws UserError with the nearest name, or all of them. */
function named<Model extends { readonly name: string }>(models: readonly Model[], name: string): Model {
  const model = models.find((one) => one.name === name);
  if (model !== undefined) return model;
  const names = models.map((one) => one.name);
  const nearest = nearestName(name, names);
  const hint = nearest === undefined ? `It has ${names.join(", ")}.` : `Did you mean ${nearest}?`;
  throw new UserError(`The stack has no model ${JSON.stringify(name)}. ${hint}`);
}
