import { expect, test } from "vitest";
import { ChatTemplate } from "../../../../containers/services/gateway/src/openai/generation.ts";
import { visionModels } from "../../../../infra/plan/catalogue/vision-models.ts";
import { visionTypes } from "../../../../infra/plan/catalogue/vision-types.ts";

const turns = [
  { role: "system", content: "Be brief." },
  { role: "user", content: "What is it?" },
  { role: "assistant", content: "A cup." },
  { role: "user", content: "And in it?" },
];

const { llava, blip2, vila, llava_onevision } = visionTypes;

/**
 * Text that preprocessing of all_models puts around a prompt (`pre_prompt` and `post_prompt` of
 * inflight_batcher_llm/preprocessing/1/model.py), without the image.
 */
const around = {
  llava: ["USER:\n", " ASSISTANT:"],
  vila: ["USER: ", " ASSISTANT:"],
  llava_onevision: ["<|im_start|>user ", "<|im_end|><|im_start|>assistant\n"],
  blip2: ["", ""],
} as const;

test.each([
  [
    "llava",
    llava,
    "USER:\nBe brief.\nWhat is it? ASSISTANT: A cup. USER: And in it? ASSISTANT:",
    "USER:\nWhat is it? ASSISTANT:",
  ],
  [
    "vila",
    vila,
    "USER: Be brief.\nWhat is it? ASSISTANT: A cup. USER: And in it? ASSISTANT:",
    "USER: What is it? ASSISTANT:",
  ],
  [
    "llava_onevision",
    llava_onevision,
    "<|im_start|>user Be brief.\nWhat is it?<|im_end|><|im_start|>assistant\nA cup.<|im_end|><|im_start|>user\nAnd in it?<|im_end|><|im_start|>assistant\n",
    "<|im_start|>user What is it?<|im_end|><|im_start|>assistant\n",
  ],
  [
    "blip2",
    blip2,
    "Be brief. Question: What is it? Answer: A cup. Question: And in it? Answer:",
    "Question: What is it? Answer:",
  ],
] as const)(
  "a chat with %s reads with preprocessing's own words as one conversation",
  (type, row, whole, one) => {
    const template = new ChatTemplate(row.chat?.template ?? "");
    const [before, after] = around[type];
    expect(before + template.render(turns) + after).toBe(whole);
    expect(before + template.render(turns.slice(1, 2)) + after).toBe(one);
  },
);

test("the two models of Llama 3.2 Vision chat in the hub's form, or continue the text", () => {
  const [base, instruct] = (["llama-3.2-11b-vision", "llama-3.2-11b-vision-instruct"] as const).map(
    (name) => new ChatTemplate(visionModels[name].chat.template),
  );
  const chat = [{ role: "user", content: "<|image|>This is" }];
  expect(base?.render(chat)).toBe("<|image|>This is");
  expect(instruct?.render(chat)).toBe(
    "<|start_header_id|>user<|end_header_id|>\n\n<|image|>This is<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
  );
});
