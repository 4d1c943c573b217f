import { join } from "node:path";
import { expect, test } from "vitest";
import { chats, usualEndpoint } from "../../../scripts/ask/endpoint.ts";
import { readPlan } from "../../../scripts/program/docker-target.ts";
import { projectRoot, stackReference } from "../../../scripts/program/stack-file.ts";

const example = (name: string) => stackReference(name, join(projectRoot, "examples", `${name}.yaml`));
const url = { kind: "url", url: "http://pictures.example.org/merlion.png" } as const;

test.each([
  ["the default stack's model", stackReference("local"), "smollm2", [], false, "gateway"],
  ["the same over gRPC", stackReference("local"), "smollm2", [], true, "triton"],
  ["a model that completes text", example("llama-2-7b-tutorial"), "llama-2-7b-cli", [], false, "triton"],
  [
    "a picture, whose address the gateway would refuse",
    example("llava-1.5"),
    "llava",
    [url],
    false,
    "triton",
  ],
  ["the same model without one", example("llava-1.5"), "llava", [], false, "gateway"],
] as const)("%s", (_what, stack, model, images, isOverGrpc, endpoint) => {
  expect(usualEndpoint(readPlan(stack), { model, images }, isOverGrpc)).toBe(endpoint);
});

test("a model that the plan lacks has no template", () => {
  expect(chats(readPlan(stackReference("local")), "nobody")).toBe(false);
});
