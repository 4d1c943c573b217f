import { execFileSync } from "node:child_process";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { OwnEncoder } from "../../../../infra/config/encoders.ts";
import { textRow, visionRow } from "../../../../infra/plan/catalogue/encoders.ts";
import { gpus } from "../../../../infra/plan/catalogue/gpus.ts";
import { releases } from "../../../../infra/plan/catalogue/releases.ts";
import {
  type EncoderPlan,
  encoderPlan,
  encoderProblems,
  graphProblems,
  towerName,
} from "../../../../infra/plan/encoders/encoder-plan.ts";
import { encodersRequest } from "../../../../infra/plan/pool-space.ts";
import {
  llavaEnsembleConfig,
  textEncoderConfig,
  visionEncoderConfig,
} from "../../../../infra/plan/repository/cpu-models.ts";
import { encoderRows } from "../../../../infra/plan/resolve/encoder-rows.ts";
import type { EncodersSpec } from "../../../../infra/plan/spec.ts";
import { explainEncoders } from "../../../../scripts/plan/explain.ts";
import { recordedText } from "../repository/recorded-text.ts";

const b32: EncodersSpec = {
  vision: "clip-vit-base-patch32",
  text: "all-MiniLM-L6-v2",
  device: "gpu",
  precision: "fp16",
  maxBatchSize: 32,
  maxQueueDelayMicroseconds: 500,
  pool: "a10g",
  replicas: 1,
};

/** Rows of a stack file. */
const OWN: Readonly<Record<string, OwnEncoder>> = {
  "clip-b16": {
    kind: "clip",
    repository: "openai/clip-vit-base-patch16",
    revision: "1".repeat(40),
    weights: "pytorch_model.bin",
    architecture: "ViT-B/16",
  },
  "bge-small": {
    kind: "sentence",
    repository: "BAAI/bge-small-en-v1.5",
    revision: "2".repeat(40),
    weights: "model.safetensors",
    hiddenSize: 384,
    layers: 12,
    vocabularySize: 30_522,
    maxTokens: 512,
    pooling: "cls",
  },
};

const own: EncodersSpec = {
  ...b32,
  ...(encoderRows({ vision: "clip-b16", text: "bge-small" }, OWN, () => expect.fail()) ?? expect.fail()),
};

const onCpu: EncodersSpec = { ...b32, device: "cpu", precision: "fp32", pool: "cpu" };

const july = releases["25.07"];

function model(plan: EncoderPlan, name: string) {
  const found = plan.models.find((candidate) => candidate.name === name);
  if (found === undefined) throw new Error(`the plan has no ${name}`);
  return found;
}

function steps(plan: EncoderPlan, name: string): Record<string, readonly string[]> {
  return Object.fromEntries(model(plan, name).steps.map((step) => [step.name, step.argv]));
}

test("CLIP ViT-B/32 is built in half precision on an A10G with these commands", () => {
  const plan = encoderPlan(b32, july, { gpu: gpus.A10G });
  const folder = `/store/encoders/${plan.shortKey}/vision_encoder`;
  expect(model(plan, "vision_encoder").export.argv).toEqual([
    "encoder_builder",
    "export",
    "--repository=openai/clip-vit-base-patch32",
    "--revision=3d74acf9a28c67741b2f4f2ea7635f0aaf6f0268",
    "--file=config.json=b575ef3c36f2a057fa19e221650105052d61cc9c1a972ec15019c6261ec98770",
    "--file=pytorch_model.bin=a63082132ba4f97a80bea76823f544493bffa8082296d62d71581a4feff1576f",
    "--tower=vision",
    "--graph=classTokenPooling,projection,normalize",
    "--inputs=pixel_values",
    "--output=image_embedding",
    "--dimension=512",
    "--data-type=float32",
    "--opset=17",
    "--weights=/store/weights/clip-vit-base-patch32/3d74acf9a28c67741b2f4f2ea7635f0aaf6f0268",
    `--assets=${folder}`,
    `--onnx=${folder}/model.onnx`,
  ]);
  expect(steps(plan, "vision_encoder")).toEqual({
    trtexec: [
      "/usr/src/tensorrt/bin/trtexec",
      `--onnx=${folder}/model.onnx`,
      `--saveEngine=${folder}/model.plan`,
      "--fp16",
      "--minShapes=pixel_values:1x3x224x224",
      "--optShapes=pixel_values:8x3x224x224",
      "--maxShapes=pixel_values:32x3x224x224",
      "--memPoolSize=workspace:2048",
      "--skipInference",
    ],
  });
});

test("shapes of texts end at each model's own length", () => {
  const plan = encoderPlan(b32, july, { gpu: gpus.A10G });
  expect(steps(plan, "text_encoder").trtexec?.slice(4, 7)).toEqual([
    "--minShapes=input_ids:1x1,attention_mask:1x1",
    "--optShapes=input_ids:8x64,attention_mask:8x64",
    "--maxShapes=input_ids:32x256,attention_mask:32x256",
  ]);
  expect(steps(plan, "clip_text").trtexec?.slice(4, 7)).toEqual([
    "--minShapes=input_ids:1x1,attention_mask:1x1",
    "--optShapes=input_ids:8x64,attention_mask:8x64",
    "--maxShapes=input_ids:32x77,attention_mask:32x77",
  ]);
  expect(model(plan, "clip_text").export.graph).toEqual(["endOfTextPooling", "projection", "normalize"]);
  expect(model(plan, "text_encoder").export.graph).toEqual(["meanPooling", "normalize"]);
});

test("int8 calibrates first, and trtexec gets the calibrated graph", () => {
  const plan = encoderPlan({ ...b32, precision: "int8" }, july, { gpu: gpus.A10G });
  const folder = `/store/encoders/${plan.shortKey}/vision_encoder`;
  expect(model(plan, "vision_encoder").steps.map(({ name }) => name)).toEqual(["calibrate", "trtexec"]);
  expect(steps(plan, "vision_encoder")).toMatchObject({
    calibrate: [
      "encoder_builder",
      "calibrate",
      "--samples=images-1",
      `--onnx=${folder}/model.onnx`,
      `--output=${folder}/model.qdq.onnx`,
    ],
    trtexec: expect.arrayContaining([`--onnx=${folder}/model.qdq.onnx`, "--int8", "--fp16"]),
  });
  expect(steps(plan, "text_encoder").calibrate).toContain("--samples=texts-1");
});

test("CLIP ViT-L/14 is built with its own weights, dimension and tokenizer", () => {
  const plan = encoderPlan({ ...b32, vision: "clip-vit-large-patch14", maxBatchSize: 4 }, july, {
    gpu: gpus.A10G,
  });
  const { export: vision } = model(plan, "vision_encoder");
  expect(vision).toMatchObject({
    repository: "openai/clip-vit-large-patch14",
    revision: "32bd64288804d66eefd0ccbe215aa642df71cc41",
    dimension: 768,
  });
  expect(vision.argv.filter((word) => word.startsWith("--file="))).toEqual([
    "--file=config.json=8a09b467700c58138c29d53c605b34ebc69beaadd13274a8a2af8ad2c2f4032a",
    "--file=model.safetensors=a2bf730a0c7debf160f7a6b50b3aaf3703e7e88ac73de7a314903141db026dcb",
  ]);
  expect(model(plan, "clip_text").export.argv).toContain(
    "--file=tokenizer.json=a83e0809aa4c3af7208b2df632a7a69668c6d48775b3c3fe4e1b1199d1f8b8f4",
  );
  expect(steps(plan, "vision_encoder").trtexec).toEqual(
    expect.arrayContaining(["--optShapes=pixel_values:4x3x224x224", "--maxShapes=pixel_values:4x3x224x224"]),
  );
});

test("float32 on a GPU is built without TF32", () => {
  const { trtexec } = steps(
    encoderPlan({ ...b32, precision: "fp32" }, july, { gpu: gpus.A10G }),
    "vision_encoder",
  );
  expect(trtexec?.[3]).toBe("--noTF32");
  expect(trtexec).not.toContain("--fp16");
});

test("encoders on a CPU have no step after the export", () => {
  const plan = encoderPlan(onCpu, july, null);
  expect(plan.models.map((one) => one.steps)).toEqual([[], [], []]);
  expect(plan.models.map((one) => one.export.dataType)).toEqual(["float32", "float32", "float32"]);
});

test.each(["fp16", "int8"] as const)(
  "a graph for images that may hold TensorRT 11, which has no precision flags, is exported for %s",
  (precision) => {
    const plan = encoderPlan({ ...b32, precision }, releases["26.04"], { gpu: gpus.A10G });
    expect(model(plan, "vision_encoder").export.dataType).toBe("float16");
    expect(model(plan, "vision_encoder").export.argv).toContain("--data-type=float16");
    const { trtexec } = steps(plan, "vision_encoder");
    expect(trtexec?.[3]).toBe("--stronglyTyped");
    expect(trtexec).not.toContain("--fp16");
    expect(trtexec).not.toContain("--int8");
  },
);

test("encoders run in the release's image without TensorRT-LLM, which has the backends", () => {
  expect(encoderPlan(b32, july, { gpu: gpus.A10G }).image).toBe("nvcr.io/nvidia/tritonserver:25.07-py3");
});

test("rows of the stack file are built with the sizes that their config.json must have", () => {
  const plan = encoderPlan(own, july, { gpu: gpus.A10G });
  const exported = (name: string) => model(plan, name).export.argv;
  const folder = `/store/encoders/${plan.shortKey}/text_encoder`;
  expect(exported("text_encoder")).toEqual([
    "encoder_builder",
    "export",
    "--repository=BAAI/bge-small-en-v1.5",
    `--revision=${"2".repeat(40)}`,
    "--file=1_Pooling/config.json",
    "--file=config.json",
    "--file=model.safetensors",
    "--file=modules.json",
    "--file=sentence_bert_config.json",
    "--file=tokenizer.json",
    "--tower=text",
    "--graph=classTokenPooling,normalize",
    "--inputs=input_ids,attention_mask",
    "--output=text_embedding",
    "--dimension=384",
    "--config=model_type=bert",
    "--config=hidden_size=384",
    "--config=num_hidden_layers=12",
    "--config=vocab_size=30522",
    "--max-tokens=512",
    "--data-type=float32",
    "--opset=17",
    `--weights=/store/weights/bge-small/${"2".repeat(40)}`,
    `--assets=${folder}`,
    `--onnx=${folder}/model.onnx`,
  ]);
  expect(exported("vision_encoder")).toEqual(
    expect.arrayContaining([
      "--file=preprocessor_config.json",
      "--file=pytorch_model.bin",
      "--dimension=512",
      "--config=projection_dim=512",
      "--config=vision_config.num_attention_heads=12",
      "--config=vision_config.patch_size=16",
      "--config=text_config.hidden_size=512",
    ]),
  );
  expect(exported("vision_encoder").join(" ")).not.toMatch(/tokenizer|max-tokens/);
  expect(exported("clip_text")).toContain("--max-tokens=77");
  expect(steps(plan, "text_encoder").trtexec).toContain("--maxShapes=input_ids:32x512,attention_mask:32x512");
});

test("own samples calibrate the towers of their kind, and the key has their label in place of their path", () => {
  const int8 = { ...b32, precision: "int8" } as const;
  const planOf = (calibration: EncodersSpec["calibration"]) =>
    encoderPlan(calibration === undefined ? int8 : { ...int8, calibration }, july, { gpu: gpus.A10G });
  const first = planOf({ texts: "/store/calibration/texts.txt", revision: "first" });
  expect(steps(first, "text_encoder").calibrate).toContain("--samples=/store/calibration/texts.txt");
  expect(steps(first, "clip_text").calibrate).toContain("--samples=/store/calibration/texts.txt");
  expect(steps(first, "vision_encoder").calibrate).toContain("--samples=images-1");
  expect(JSON.stringify(first.keyFields)).not.toContain("/store");
  expect(planOf({ texts: "/store/other.txt", revision: "first" }).key).toBe(first.key);
  const others = [
    planOf({ texts: "/store/calibration/texts.txt", revision: "second" }),
    planOf({ images: "/store/calibration/pictures", revision: "first" }),
    planOf(undefined),
  ];
  expect(new Set([first, ...others].map((plan) => plan.key)).size).toBe(4);
});

test("rows of the stack file have the parameters of their sizes", () => {
  // Both towers: https://github.com/openai/CLIP, ViT-B/16 has 149,620,737 with the temperature.
  const { vision, text } = visionRow(own);
  expect(vision.parameters + text.parameters + 1).toBe(149_620_737);
  expect(vision.tokens).toBe(197);
  // https://huggingface.co/BAAI/bge-small-en-v1.5: 33.4 million.
  expect(textRow(own).text.parameters).toBe(33_360_000);
});

test.each([
  ["encoders.vision", { vision: "bge-small", text: "bge-small" }, /bge-small is of kind sentence/],
  [
    "encoders.text",
    { vision: "clip-b16", text: "clip-vit-base-patch32" },
    /not the name of an encoder of texts/,
  ],
  [
    "encoders.vision",
    { vision: "clip-b61", text: "bge-small" },
    /Did you mean `clip-b16`\?.*catalogue\.encoders/,
  ],
] as const)("a name at %s that has no row of its kind is reported", (path, names, says) => {
  const found: { path: string; reason: string; fix: string }[] = [];
  expect(encoderRows(names, OWN, (finding) => void found.push(finding))).toBeNull();
  expect(found).toHaveLength(1);
  expect(found[0]?.path).toBe(path);
  expect(`${found[0]?.reason} ${found[0]?.fix}`).toMatch(says);
});

const { key, shortKey } = encoderPlan(b32, july, { gpu: gpus.A10G });

test("the encoders' key has 64 digits, and paths have its first 12", () => {
  expect(key).toMatch(/^[0-9a-f]{64}$/);
  expect(encoderPlan(b32, july, { gpu: gpus.A10G }).directory).toBe(`/store/encoders/${key.slice(0, 12)}`);
  expect(shortKey).toBe(key.slice(0, 12));
});

test.each([
  ["another number of replicas", { replicas: 3 }],
  ["another pool", { pool: "other" }],
  ["another queue delay", { maxQueueDelayMicroseconds: 9 }],
  ["other GPU numbers", { gpuIndices: [1] }],
] as const)("the encoders' key is the same with %s", (_what, changes) => {
  expect(encoderPlan({ ...b32, ...changes }, july, { gpu: gpus.A10G }).key).toBe(key);
});

test("the encoders' key is the same with another TensorRT-LLM in the release's other image", () => {
  const other = { ...releases["25.07"], tensorRtLlm: "0.21.0", tensorRt: "10.11.0.33", imageGB: 20 };
  expect(encoderPlan(b32, other, { gpu: gpus.A10G }).key).toBe(key);
});

test.each([
  ["precision", { precision: "int8" }],
  ["vision encoder", { vision: "clip-vit-large-patch14" }],
  ["largest batch", { maxBatchSize: 16 }],
] as const)("the encoders' key changes with the %s", (_what, changes) => {
  expect(encoderPlan({ ...b32, ...changes }, july, { gpu: gpus.A10G }).key).not.toBe(key);
});

test("the encoders' key changes with the GPU and with TensorRT", () => {
  expect(encoderPlan(b32, july, { gpu: gpus.L4 }).key).not.toBe(key);
  expect(encoderPlan(b32, releases["25.08"], { gpu: gpus.A10G }).key).not.toBe(key);
});

test("the encoders' key changes in a partition of the GPU, which is a GPU of its own to TensorRT", () => {
  const partition = encoderPlan(b32, july, { gpu: gpus.A10G, migProfile: "1g.5gb" });
  expect(partition.keyFields.gpu).toBe("A10G 8.6 MIG 1g.5gb");
  expect(partition.key).not.toBe(key);
});

test("the encoders' key on a CPU depends on neither image nor batch nor GPU", () => {
  const cpu = encoderPlan(onCpu, july, null).key;
  expect(encoderPlan({ ...onCpu, maxBatchSize: 8 }, releases["25.08"], null).key).toBe(cpu);
});

test("the encoders' key has no path, so that a store elsewhere keeps it", () => {
  expect(JSON.stringify(encoderPlan(b32, july, { gpu: gpus.A10G }).keyFields)).not.toContain("/store");
});

const anySpec: fc.Arbitrary<EncodersSpec> = fc.record({
  vision: fc.constantFrom("clip-vit-base-patch32", "clip-vit-large-patch14"),
  text: fc.constant("all-MiniLM-L6-v2"),
  device: fc.constantFrom("cpu", "gpu"),
  precision: fc.constantFrom("fp32", "fp16", "int8"),
  maxBatchSize: fc.integer({ min: 1, max: 256 }),
  maxQueueDelayMicroseconds: fc.nat(10_000),
  pool: fc.constant("pool"),
  replicas: fc.integer({ min: 1, max: 4 }),
});

const anyTag = fc.constantFrom("24.04", "25.07", "26.02", "26.07");

/** Rows of the first input in a shape option. */
function batchOf(argv: readonly string[], option: "min" | "opt" | "max"): number {
  const word = argv.find((candidate) => candidate.startsWith(`--${option}Shapes=`)) ?? "";
  return Number(/:(\d+)x/.exec(word)?.[1]);
}

const targetOf = ({ device }: EncodersSpec) => (device === "gpu" ? { gpu: gpus.A10G } : null);

const possible = fc
  .tuple(anySpec, anyTag)
  .filter(([spec]) => encoderProblems(spec, gpus.A10G) === false)
  .map(([spec, tag]) => ({ spec, plan: encoderPlan(spec, releases[tag], targetOf(spec)) }));

test("Triton's batches are within the built shapes, and shapes are ordered, in any plan of encoders", () => {
  fc.assert(
    fc.property(possible, ({ spec, plan }) => {
      const batch = (name: string) => Number(/^max_batch_size: (\d+)$/m.exec(config(plan, name))?.[1]);
      for (const { name: front, steps: after } of plan.models) {
        const argv = after.find(({ name }) => name === "trtexec")?.argv;
        expect(argv === undefined).toBe(spec.device === "cpu");
        if (argv === undefined) continue;
        const largest = batchOf(argv, "max");
        expect(batch(towerName(front))).toBeLessThanOrEqual(largest);
        expect(batch(front)).toBeLessThanOrEqual(batch(towerName(front)));
        expect(batch("llava_ensemble")).toBeLessThanOrEqual(batch(front));
        expect(batchOf(argv, "min")).toBe(1);
        expect(batchOf(argv, "opt")).toBeLessThanOrEqual(largest);
      }
    }),
  );
});

test("int8 is built only from a calibrated graph in any plan of encoders", () => {
  fc.assert(
    fc.property(possible, ({ spec, plan }) => {
      for (const { steps: after } of plan.models) {
        const argv = after.flatMap((step) => (step.name === "trtexec" ? step.argv : []));
        const takesCalibrated = argv.some((word) => word.startsWith("--onnx=") && word.endsWith(".qdq.onnx"));
        const calibrates = after.some((step) => step.name === "calibrate");
        expect([takesCalibrated, calibrates]).toEqual([spec.precision === "int8", spec.precision === "int8"]);
        expect(argv.includes("--int8") && !takesCalibrated).toBe(false);
        expect(argv.includes("--stronglyTyped") && (argv.includes("--fp16") || argv.includes("--int8"))).toBe(
          false,
        );
      }
    }),
  );
});

test("towers declare the tensors of their graphs in any plan of encoders", () => {
  fc.assert(
    fc.property(possible, ({ plan }) => {
      for (const { name, export: graph } of plan.models) {
        const tower = config(plan, towerName(name));
        const inputs = [...tower.matchAll(/^input \{\n {2}name: "(\w+)"$/gm)].map(([, input]) => input);
        expect(inputs).toEqual(graph.inputs);
        expect(tower.match(/^output \{\n[^}]*\}$/gm)).toEqual([
          `output {\n  name: "${graph.output}"\n  data_type: TYPE_FP32\n  dims: ${graph.dimension}\n}`,
        ]);
      }
    }),
  );
});

test("Triton loads each model once, with the file that its commands write, in any plan of encoders", () => {
  fc.assert(
    fc.property(possible, ({ plan }) => {
      const names = plan.tritonModels.map(({ name }) => name);
      expect(names).toEqual([
        "clip_text",
        "clip_text_tower",
        "llava_ensemble",
        "text_encoder",
        "text_tower",
        "vision_encoder",
        "vision_tower",
      ]);
      const written = plan.models.flatMap(({ export: { argv }, steps: after }) =>
        [argv, ...after.map((step) => step.argv)].flat().map((word) => word.slice(word.indexOf("=") + 1)),
      );
      for (const { name, files } of plan.tritonModels.filter((model) => model.name.endsWith("_tower"))) {
        const [path] = Object.values(files);
        expect(written, name).toContain(`${plan.directory}/${path}`);
      }
    }),
  );
});

test("the same encoders have the same plan, to the byte", () => {
  fc.assert(
    fc.property(anySpec, anyTag, (spec, tag) => {
      fc.pre(encoderProblems(spec, gpus.A10G) === false);
      const plans = [0, 1].map(() => JSON.stringify(encoderPlan(spec, releases[tag], targetOf(spec))));
      expect(plans[1]).toBe(plans[0]);
    }),
  );
});

/** Commands of a script as a shell reads them: each program is replaced by one that prints its arguments. */
function commandsOf(lines: readonly string[]): string[][] {
  const print = `print() { for word; do printf '%s\\037' "$word"; done; printf '\\n'; }`;
  const script = lines
    .map((line) => line.replace(/^(?=encoder_builder |\/usr\/src|mkdir )/, "print "))
    .join("\n");
  const output = execFileSync("sh", ["-c", `${print}\n${script}`], { encoding: "utf8" });
  return output
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => line.split("\x1f").slice(0, -1));
}

test("explained encoders are built by the commands of the plan", () => {
  const plan = encoderPlan({ ...b32, precision: "int8" }, releases["25.07"], { gpu: gpus.A10G });
  const commands = plan.models.flatMap((model) =>
    [model.export, ...model.steps].map(({ argv }) => [...argv]),
  );
  expect(commandsOf(explainEncoders(plan)).slice(1)).toEqual(commands);
});

test("explained encoders create folders first, and say where to run which programs", () => {
  const plan = encoderPlan({ ...b32, precision: "int8" }, releases["25.07"], { gpu: gpus.A10G });
  const lines = explainEncoders(plan);
  expect(lines[0]).toBe(
    `# Encoders ${plan.shortKey}: int8, in nvcr.io/nvidia/tritonserver:25.07-py3 with encoder_builder, on a machine with the GPU that serves (A10G 8.6).`,
  );
  expect(commandsOf(lines)[0]).toEqual([
    "mkdir",
    "-p",
    `${plan.directory}/clip_text`,
    `${plan.directory}/text_encoder`,
    `${plan.directory}/vision_encoder`,
  ]);
  const text = lines.join("\n");
  expect(text.match(/# export: .*this project's own program/g)).toHaveLength(3);
  expect(text.match(/# calibrate: .*encoder_builder, likewise/g)).toHaveLength(3);
  expect(text.match(/# trtexec: .*NVIDIA's own tool/g)).toHaveLength(3);
});

test("explained encoders on a CPU ask for no GPU", () => {
  const lines = explainEncoders(encoderPlan(onCpu, releases["25.07"], null));
  expect(lines[0]).toContain("on any machine");
  expect(lines.join("\n")).not.toContain("trtexec");
});

const withoutInt8 = { ...gpus.A10G, name: "Old", computeCapability: "6.0", formats: ["float16"] as const };

test.each([
  ["fp16 on a CPU", { ...onCpu, precision: "fp16" }, null, "encoders.precision", /float32 graphs/],
  ["int8 on a CPU", { ...onCpu, precision: "int8" }, null, "encoders.precision", /float32 graphs/],
  ["a GPU in a pool without one", b32, null, "encoders.pool", /have no GPU/],
  [
    "int8 on a GPU without it",
    { ...b32, precision: "int8" },
    withoutInt8,
    "encoders.precision",
    /Old .*6\.0/,
  ],
] as const)("encoders with %s are reported", (_what, spec, gpu, path, reason) => {
  expect(encoderProblems(spec, gpu)).toMatchObject({ path, reason: expect.stringMatching(reason) });
});

test("encoders that can be built have no problems", () => {
  expect(encoderProblems(b32, gpus.A10G)).toBe(false);
  expect(encoderProblems(onCpu, null)).toBe(false);
  expect(encoderProblems({ ...b32, precision: "fp32" }, withoutInt8)).toBe(false);
});

const gpu = encoderPlan(b32, releases["25.07"], { gpu: gpus.A10G });

const cpu = encoderPlan(onCpu, releases["25.07"], null);

/** The local platform's models, for the same batch and the same encoders. */
const local = {
  maxBatchSize: b32.maxBatchSize,
  maxQueueDelayMicroseconds: b32.maxQueueDelayMicroseconds,
  dynamicBatching: true,
  text: { dimension: 384, maxTokens: 256 },
  vision: { dimension: 512 },
};

function config(plan: EncoderPlan, name: string): string {
  const found = plan.tritonModels.find((model) => model.name === name);
  if (found === undefined) throw new Error(`the plan has no ${name}`);
  return found.config;
}

test.each(gpu.tritonModels.map(({ name }) => name))(
  "config.pbtxt of %s on a GPU is as recorded",
  async (name) => {
    await recordedText(`gpu_${name}`, config(gpu, name));
  },
);

test("config.pbtxt of a tower on a CPU is as recorded", async () => {
  await recordedText("cpu_vision_tower", config(cpu, "vision_tower"));
});

test.each([
  ["text_encoder", textEncoderConfig],
  ["vision_encoder", visionEncoderConfig],
  ["llava_ensemble", llavaEnsembleConfig],
] as const)("%s has the tensors and batches of the local platform's", (name, localConfig) => {
  const withoutParameters = (text: string) => text.replace(/^parameters \{\n[\s\S]*?^\}\n/gm, "");
  expect(withoutParameters(config(gpu, name))).toBe(withoutParameters(localConfig(local, {})));
});

/** Values that the backend gets. */
function parameters(text: string): Record<string, string> {
  const entries = text.matchAll(
    /^parameters \{\n {2}key: "(\w+)"\n {2}value \{\n {4}string_value: "(\w+)"$/gm,
  );
  return Object.fromEntries([...entries].map(([, key = "", value = ""]) => [key, value]));
}

test("parameters of each encoder name the tower that computes for it", () => {
  expect(parameters(config(gpu, "vision_encoder"))).toEqual({
    tower_model: "vision_tower",
    max_image_bytes: "10485760",
    max_image_pixels: "40000000",
  });
  expect(parameters(config(gpu, "text_encoder"))).toMatchObject({
    tower_model: "text_tower",
    max_tokens: "256",
  });
  expect(parameters(config(gpu, "clip_text"))).toMatchObject({
    tower_model: "clip_text_tower",
    max_tokens: "77",
  });
});

test("encoders in front have the local platform's Python, and towers none", () => {
  const sources = Object.fromEntries(
    gpu.tritonModels.map((model) => [model.name, model.sources["1/model.py"]]),
  );
  expect(sources).toEqual({
    clip_text: "encoders/text_encoder.py",
    text_encoder: "encoders/text_encoder.py",
    vision_encoder: "encoders/vision_encoder.py",
  });
});

test("a batch of texts is computed at once on a GPU, within the plan's shapes, and in parts on a CPU", () => {
  expect(parameters(config(gpu, "text_encoder"))).toMatchObject({ max_padded_tokens: String(32 * 256) });
  expect(parameters(config(gpu, "clip_text"))).toMatchObject({ max_padded_tokens: String(32 * 77) });
  expect(parameters(config(cpu, "text_encoder"))).toMatchObject({ max_padded_tokens: "512" });
});

test("CLIP maps texts and images into one space, and MiniLM sentences into another", () => {
  const plan = encoderPlan({ ...b32, vision: "clip-vit-large-patch14" }, releases["25.07"], {
    gpu: gpus.A10G,
  });
  const dimensions = (name: string) =>
    [...config(plan, name).matchAll(/_embedding"\n {2}data_type: TYPE_FP32\n {2}dims: (\d+)$/gm)].map(
      ([, size]) => Number(size),
    );
  expect(["clip_text", "vision_encoder", "text_encoder"].map(dimensions)).toEqual([[768], [768], [384]]);
  expect(dimensions("llava_ensemble")).toEqual([768, 384]);
});

test("the warm-up of a tower is within the tokens of its plan", () => {
  const spec = encoderRows(
    { vision: "clip-b16", text: "bge-small" },
    { ...OWN, "bge-small": { ...OWN["bge-small"], maxTokens: 32 } as OwnEncoder },
    () => expect.fail(),
  );
  const warmUp = (text: string) => /key: "input_ids"\n[\s\S]*?dims: (\d+)/.exec(text)?.[1];
  const short = encoderPlan({ ...b32, ...spec }, july, { gpu: gpus.A10G });
  expect(warmUp(config(short, "text_tower"))).toBe("32");
  expect(warmUp(config(gpu, "text_tower"))).toBe("64");
});

test("prefixes of a row are in the key and in the export's words, and the longest text fits with them", () => {
  const withPrefixes = (prefixes: object | undefined) =>
    encoderPlan(
      {
        ...b32,
        ...encoderRows(
          { vision: "clip-b16", text: "bge-small" },
          { ...OWN, "bge-small": { ...OWN["bge-small"], prefixes } as OwnEncoder },
          () => expect.fail(),
        ),
      },
      july,
      { gpu: gpus.A10G },
    );
  const plan = withPrefixes({ document: "Text: ", query: "Für: " });
  expect(model(plan, "text_encoder").export.argv.slice(-8, -5)).toEqual([
    "--max-tokens=512",
    "--prefix=query=Für: ",
    "--prefix=document=Text: ",
  ]);
  expect(plan.key).not.toBe(withPrefixes(undefined).key);
  expect(withPrefixes(undefined).key).toBe(encoderPlan(own, july, { gpu: gpus.A10G }).key);
  const longestText = (name: string) => parameters(config(plan, name)).max_text_bytes;
  expect(["text_encoder", "clip_text"].map(longestText)).toEqual([String(65_536 + 6), "65536"]);
});

test("host memory of the default encoders is 3 GiB, and that of larger ones grows with their graphs", () => {
  const memoryGiB = (spec: EncodersSpec) =>
    (["build", "serve"] as const).map((use) => encodersRequest(spec, use).memoryMiB / 1024);
  expect(memoryGiB(b32)).toEqual([3, 3]);
  expect(memoryGiB(onCpu)).toEqual([3, 3]);
  expect(memoryGiB(own)).toEqual([3, 3]);
  const withText = (sizes: object, device: EncodersSpec["device"] = "cpu"): EncodersSpec => ({
    ...b32,
    device,
    ...encoderRows(
      { vision: b32.vision, text: "bge-small" },
      { ...OWN, "bge-small": { ...OWN["bge-small"], ...sizes } as OwnEncoder },
      () => expect.fail(),
    ),
  });
  const large = withText({ hiddenSize: 1024, layers: 24 });
  const largest = { hiddenSize: 1024, layers: 24, vocabularySize: 220_000 };
  expect(graphProblems(withText(largest))).toBe(false);
  expect(graphProblems(withText({ ...largest, vocabularySize: 230_000 }))).not.toBe(false);
  // Measured peaks of a build, and of ONNX Runtime, with the other towers' 0.6 GiB beside it.
  for (const [spec, built, served] of [
    [large, 6.27, 1.88],
    [withText(largest), 9.88, 2.18],
  ] as const) {
    const [build = 0, serve = 0] = memoryGiB(spec);
    expect(build).toBeGreaterThan(built);
    expect(build).toBeLessThan(1.25 * built);
    expect(serve).toBeGreaterThan(served + 0.6);
  }
  expect(memoryGiB(withText(largest, "gpu"))[1]).toBeLessThan(memoryGiB(withText(largest))[1] ?? 0);
  expect(memoryGiB({ ...onCpu, vision: "clip-vit-large-patch14" })[0]).toBeCloseTo(7, 0);
});

test("towers run on TensorRT or ONNX Runtime, with the file name of each backend", () => {
  const files = (plan: EncoderPlan) =>
    Object.fromEntries(plan.tritonModels.map((model) => [model.name, model.files]));
  expect(config(gpu, "text_tower")).toMatch(
    /^backend: "tensorrt"$[\s\S]*^ {2}kind: KIND_GPU\n {2}count: 1$/m,
  );
  expect(files(gpu)).toMatchObject({
    text_tower: { "1/model.plan": "text_encoder/model.plan" },
    text_encoder: { "1/tokenizer.json": "text_encoder/tokenizer.json" },
    vision_encoder: { "1/preprocess.json": "vision_encoder/preprocess.json" },
    llava_ensemble: {},
  });
  expect(config(cpu, "text_tower")).toMatch(
    /^backend: "onnxruntime"$[\s\S]*^ {2}kind: KIND_CPU\n {2}count: 1$/m,
  );
  expect(files(cpu)).toMatchObject({ text_tower: { "1/model.onnx": "text_encoder/model.onnx" } });
});
