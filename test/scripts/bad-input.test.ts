/** Pictures, videos, flags, templates and rows that can't work: what a user reads, before anything is built or sent. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { SAMPLE_IMAGE_DATA_URL } from "../../scripts/ask/golden.ts";
import { customModel, customVision, dockerModel } from "../infra/plan/checks/stacks.ts";
import { installFfmpeg } from "./ask/ffmpeg.ts";
import { runCommand } from "./plan/run-plan.ts";

const folder = mkdtempSync(join(tmpdir(), "engine-room-bad-input-"));
const programs = join(folder, "programs");
const place = (name: string) => join(folder, name);

beforeAll(async () => {
  await installFfmpeg(programs);
  const png = Buffer.from(SAMPLE_IMAGE_DATA_URL.slice(SAMPLE_IMAGE_DATA_URL.indexOf(",") + 1), "base64");
  const files = {
    "a.png": png,
    "text.png": "hello",
    "corrupt.mp4": "hello",
    "empty.mp4": "",
    "list.m3u8": `#EXTM3U\n#EXTINF:1,\n${place("corrupt.mp4")}\n`,
    "own/tensorrt_llm/config.pbtxt": `name: "tensorrt_llm"\nmax_batch_size: \${my_batch_size}\n`,
    "wild/tensorrtllm/config.pbtxt": `name: "tensorrtllm"\n`,
  };
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(join(place(name), ".."), { recursive: true });
    writeFileSync(place(name), content);
  }
}, 300_000);

beforeEach(() => {
  vi.stubEnv("PATH", `${programs}${delimiter}${process.env.PATH}`);
});

afterAll(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
});

/** Vision-language models of one Docker host. */
const host = {
  platform: "docker",
  host: { instanceType: "g6e.12xlarge", diskGiB: 400 },
  encoders: false,
  models: ["blip2-opt-2.7b", "llava-1.5-7b", "vila1.5-3b", "llava-onevision-qwen2-7b"].map((model, index) => {
    const [name = ""] = model.split(/[-1]/);
    return { name: index === 3 ? "onevision" : name, model, flavour: "multimodal", gpuIndices: [index] };
  }),
};
const ask = (model: string, ...options: readonly string[]) => ({
  values: host,
  command: ["ask", "--model", model, ...options, "--text", "What is it?"],
});
const image = (name: string, count = 1) =>
  Array.from({ length: count }, () => ["--image", place(name)]).flat();
const video = (name: string, ...options: readonly string[]) => ["--video", place(name), ...options];

/** `plan` of a stack file. */
const plan = (values: object) => ({ values });
const row = (changes: object, model: object = {}) =>
  plan(
    dockerModel(
      { model: "own", ...model },
      { catalogue: { models: { own: { ...customModel, ...changes } } } },
    ),
  );
const seeing = (vision: object, model: object = {}) =>
  row(
    {
      vision: { ...customVision, ...vision },
      flavours: ["multimodal"],
      golden: { ...customModel.golden, image: "coffee" },
    },
    model,
  );
const gpt = (model: object, rest: object = {}) =>
  plan(dockerModel({ model: "gpt2-medium", ...model }, { ...rest }));

interface Input {
  readonly values: object;
  readonly command?: readonly string[];
}

const inputs: Readonly<Record<string, () => Input>> = {
  "a corrupt video": () => ask("onevision", ...video("corrupt.mp4")),
  "an empty video": () => ask("onevision", ...video("empty.mp4")),
  "a playlist as a video": () => ask("onevision", ...video("list.m3u8")),
  "a video that is not there": () => ask("onevision", ...video("missing.mp4")),
  "a video by its address": () => ask("onevision", "--video", "https://example.org/v.mp4"),
  "10,000 frames": () => ask("onevision", ...video("corrupt.mp4", "--frames", "10000")),
  "10,000 frames through the gateway": () =>
    ask("onevision", "--endpoint", "gateway", ...video("corrupt.mp4", "--frames", "10000")),
  "no number of frames": () => ask("onevision", ...video("corrupt.mp4", "--frames", "many")),
  "frames of no video": () => ask("onevision", ...image("a.png"), "--frames", "8"),
  "a video for a model of pictures": () => ask("blip2", ...video("corrupt.mp4")),
  "a video and a picture": () => ask("onevision", ...video("corrupt.mp4"), ...image("a.png")),
  "two pictures for a model of one": () => ask("llava", ...image("a.png", 2)),
  "five pictures for a model of four": () => ask("vila", ...image("a.png", 5)),
  "a text as a picture": () => ask("llava", ...image("text.png")),
  "a picture that is not there": () => ask("llava", ...image("missing.png")),
  "no picture for a model that needs one": () => ask("blip2", "--endpoint", "triton"),
  "more beams than the engine has": () => ask("llava", ...image("a.png"), "--beam-width", "4"),
  "a pipeline of the gateway": () =>
    ask("llava", ...image("a.png"), "--endpoint", "gateway", "--pipeline", "bls"),
  "a mistyped model": () => ask("lava", ...image("a.png")),
  "a flag that the release lacks": () =>
    gpt({ engine: { extraFlags: { builder: { warp_speed: "enable" } } } }, { release: "24.12" }),
  "a flag that the plan writes": () => gpt({ engine: { extraFlags: { builder: { max_batch_size: 4 } } } }),
  "a flag of the visual engine for a text model": () =>
    gpt({ engine: { extraFlags: { vision: { max_hw_dims: 1 } } } }),
  "a template with an unknown key": () => gpt({ triton: { templates: place("own") } }),
  "a template of an unknown model": () => gpt({ triton: { templates: place("wild") } }),
  "no folder of templates": () => gpt({ triton: { templates: place("missing") } }),
  "a placeholder that no template has": () => gpt({ triton: { parameters: { warp_speed: 9 } } }),
  "a processor configuration of another class": () =>
    seeing({
      imageProcessor: { class: "Qwen2VLImageProcessor", edge: 336, mean: [0, 0, 0], std: [1, 1, 1] },
    }),
  "a vision type that no release has": () => seeing({ modelType: "qwen9_vl" }),
  "two pictures for MLLaMA's preprocessing": () =>
    seeing({ modelType: "mllama", maxImagesPerRequest: 2 }, { limits: { maxImagesPerRequest: 2 } }),
  "more pictures than the row has": () => seeing({}, { limits: { maxImagesPerRequest: 3 } }),
  "a recipe that no release has": () => row({ recipe: "rwkv" }),
  "a golden question about a picture for a text model": () =>
    gpt({ golden: { prompt: "What is it?", answerContains: ["cup"], image: "coffee" } }),
  "samples of a calibration that is not done": () =>
    gpt({ engine: { calibration: { dataset: "cnn_dailymail" } } }),
  "a quantization that the GPU does not compute": () =>
    plan(dockerModel({ model: "gpt2-medium", quantization: "fp8" })),
  "an engine on a release without engines": () => gpt({}, { release: "26.04" }),
};

/** The command that meets the input, by default `plan`, with its stack file. */
function argvOf({ values, command = ["plan"] }: Input): readonly string[] {
  const config = Object.entries(values).map(([key, value]) => [`engine-room:${key}`, value]);
  writeFileSync(place("Pulumi.bad.yaml"), JSON.stringify({ config: Object.fromEntries(config) }));
  return [...command, "--stack", "bad", "--config-file", place("Pulumi.bad.yaml")];
}

test("each input ends with its recorded sentences, and nothing is printed or asked", async () => {
  let recorded = "";
  for (const [name, input] of Object.entries(inputs)) {
    const { exitCode, stdout, stderr } = await runCommand(...argvOf(input()));
    expect([exitCode > 0, stdout], name).toEqual([true, ""]);
    const said = stderr.replaceAll(folder, "FOLDER").trimEnd();
    expect(said, name).not.toMatch(/undefined|\[object|^\s+at /m);
    recorded += `# ${name}\n\n${said}\n\n`;
  }
  await expect(recorded).toMatchFileSnapshot("../recorded/bad-input.txt");
}, 120_000);
