import { expect, test } from "vitest";
import type { z } from "zod";
import { validationError } from "../../containers/services/gateway/src/errors.ts";
import {
  chatCompletionRequest,
  embeddingRequest,
} from "../../containers/services/gateway/src/openai/schemas.ts";
import {
  documentRequest,
  listQuery,
  matchRequest,
} from "../../containers/services/gateway/src/retrieval/schemas.ts";
import { checked } from "../../containers/services/gateway/src/schema-problems.ts";

const chat = { model: "m", messages: [{ role: "user", content: "a" }] };

test.each<[string, z.ZodType, unknown, string]>([
  ["an empty list", chatCompletionRequest, { ...chat, messages: [] }, "messages: must not be empty"],
  [
    "a number above a bound",
    chatCompletionRequest,
    { ...chat, temperature: 3 },
    "temperature: must be 2 or less",
  ],
  ["a number at an open bound", chatCompletionRequest, { ...chat, top_p: 0 }, "top_p: must be more than 0"],
  ["a broken number", chatCompletionRequest, { ...chat, seed: 1.5 }, "seed: must be a whole number"],
  ["a text for a number", chatCompletionRequest, { ...chat, seed: "1" }, "seed: must be a number"],
  ["a number for a flag", chatCompletionRequest, { ...chat, stream: 1 }, "stream: must be true or false"],
  ["a missing value", chatCompletionRequest, { messages: chat.messages }, "model: is required, as a text"],
  [
    "a long text",
    chatCompletionRequest,
    { ...chat, model: "m".repeat(257) },
    "model: must have at most 256 characters",
  ],
  ["a list as a request", chatCompletionRequest, [], "The request must be an object"],
  ["no request", chatCompletionRequest, undefined, "The request is required, as an object"],
  ["an unknown parameter", chatCompletionRequest, { ...chat, tempature: 1 }, "tempature: unknown parameter"],
  [
    "a message of its field",
    chatCompletionRequest,
    { ...chat, n: 2 },
    "n: must be 1: send a request for each answer",
  ],
  [
    "an unknown value",
    embeddingRequest,
    { model: "m", input: "a", encoding_format: "hex" },
    'encoding_format: must be one of "float", "base64"',
  ],
  ["an empty list of texts", embeddingRequest, { model: "m", input: [] }, "input: must not be empty"],
  ["a query that is no number", listQuery, { limit: "many" }, "limit: must be a number"],
  ["a search for nothing", matchRequest, {}, "The request needs a text, an image, or both"],
  ["a document without content", documentRequest, { id: "x" }, "The request needs a text, an image, or both"],
])("the gateway refuses %s in a sentence", (_what, schema, request, message) => {
  const { error } = checked(schema, request);
  expect(validationError(error?.issues ?? []).message).toBe(message);
});

test("a refused document of several is named by its place", () => {
  const { error } = checked(documentRequest, { id: "x" });
  expect(validationError(error?.issues ?? [], "documents[3]").message).toBe(
    "documents[3]: needs a text, an image, or both",
  );
});
