import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { gpus } from "../../../../infra/plan/catalogue/gpus.ts";
import { releases } from "../../../../infra/plan/catalogue/releases.ts";
import { encoderPlan } from "../../../../infra/plan/encoders/encoder-plan.ts";
import { encoderProblems } from "../../../../infra/plan/encoders/encoder-problems.ts";
import type { EncoderModelName, EncoderPlan } from "../../../../infra/plan/encoders/types.ts";
import type { EncodersSpec } from "../../../../infra/plan/spec.ts";
import { b32, onCpu } from "./stacks.ts";

const july = releases["25.07"];

function model(plan: EncoderPlan, name: EncoderModelName) {
  const found = plan.models.find((candidate) => candidate.name === name);
  if (found === undefined) throw new Error(`the plan has no ${name}`);
  return found;
}

function steps(plan: EncoderPlan, name: EncoderModelName): Record<string, readonly string[]> {
  return Object.fromEntries(model(plan, name).steps.map((step) => [step.name, step.argv]));
}

describe("commands", () => {
  it("builds CLIP ViT-B/32 in half precision on an A10G", () => {
    const plan = encoderPlan(b32, july, gpus.A10G);
    const folder = `/store/encoders/${plan.shortKey}/vision_encoder`;
    expect(model(plan, "vision_encoder").export.argv).toEqual([
      "python3",
      "-m",
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

  it("cuts the texts' lengths at each model's own", () => {
    const plan = encoderPlan(b32, july, gpus.A10G);
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

  it("calibrates before int8, and gives trtexec the calibrated graph", () => {
    const plan = encoderPlan({ ...b32, precision: "int8" }, july, gpus.A10G);
    const folder = `/store/encoders/${plan.shortKey}/vision_encoder`;
    expect(model(plan, "vision_encoder").steps.map(({ name }) => name)).toEqual(["calibrate", "trtexec"]);
    expect(steps(plan, "vision_encoder")).toMatchObject({
      calibrate: [
        "python3",
        "-m",
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

  it("builds CLIP ViT-L/14 with its own weights, dimension and tokenizer", () => {
    const plan = encoderPlan({ ...b32, vision: "clip-vit-large-patch14", maxBatchSize: 4 }, july, gpus.A10G);
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
      expect.arrayContaining([
        "--optShapes=pixel_values:4x3x224x224",
        "--maxShapes=pixel_values:4x3x224x224",
      ]),
    );
  });

  it("keeps float32 whole on a GPU, where TensorRT would compute it in TF32", () => {
    const { trtexec } = steps(encoderPlan({ ...b32, precision: "fp32" }, july, gpus.A10G), "vision_encoder");
    expect(trtexec?.[3]).toBe("--noTF32");
    expect(trtexec).not.toContain("--fp16");
  });

  it("has nothing to do after the export on a CPU", () => {
    const plan = encoderPlan(onCpu, july, null);
    expect(plan.models.map((one) => one.steps)).toEqual([[], [], []]);
    expect(plan.models.map((one) => one.export.dataType)).toEqual(["float32", "float32", "float32"]);
  });

  it.each(["fp16", "int8"] as const)(
    "writes %s into the graph for images that may hold TensorRT 11, which has no precision flags",
    (precision) => {
      const plan = encoderPlan({ ...b32, precision }, releases["26.04"], gpus.A10G);
      expect(model(plan, "vision_encoder").export.dataType).toBe("float16");
      expect(model(plan, "vision_encoder").export.argv).toContain("--data-type=float16");
      const { trtexec } = steps(plan, "vision_encoder");
      expect(trtexec?.[3]).toBe("--stronglyTyped");
      expect(trtexec).not.toContain("--fp16");
      expect(trtexec).not.toContain("--int8");
    },
  );
});

describe("the image", () => {
  it("is the release's without TensorRT-LLM, which has the backends", () => {
    expect(encoderPlan(b32, july, gpus.A10G).image).toBe("nvcr.io/nvidia/tritonserver:25.07-py3");
  });
});

describe("the key", () => {
  const { key, shortKey } = encoderPlan(b32, july, gpus.A10G);

  it("is 64 digits, its first 12 in the paths", () => {
    expect(key).toMatch(/^[0-9a-f]{64}$/);
    expect(encoderPlan(b32, july, gpus.A10G).directory).toBe(`/store/encoders/${key.slice(0, 12)}`);
    expect(shortKey).toBe(key.slice(0, 12));
  });

  it.each([
    ["replicas", { replicas: 3 }],
    ["pool", { pool: "other" }],
    ["queue delay", { maxQueueDelayMicroseconds: 9 }],
    ["GPU numbers", { gpuIndices: [1] }],
  ] as const)("is the same with other %s", (_what, changes) => {
    expect(encoderPlan({ ...b32, ...changes }, july, gpus.A10G).key).toBe(key);
  });

  it("is the same with another TensorRT-LLM in the release's other image", () => {
    const other = { ...releases["25.07"], tensorRtLlm: "0.21.0", tensorRt: "10.11.0.33", imageGB: 20 };
    expect(encoderPlan(b32, other, gpus.A10G).key).toBe(key);
  });

  it.each([
    ["precision", { precision: "int8" }],
    ["vision encoder", { vision: "clip-vit-large-patch14" }],
    ["largest batch", { maxBatchSize: 16 }],
  ] as const)("is another with another %s", (_what, changes) => {
    expect(encoderPlan({ ...b32, ...changes }, july, gpus.A10G).key).not.toBe(key);
  });

  it("is another on another GPU and with another TensorRT", () => {
    expect(encoderPlan(b32, july, gpus.L4).key).not.toBe(key);
    expect(encoderPlan(b32, releases["25.08"], gpus.A10G).key).not.toBe(key);
  });

  it("is another in a partition of the GPU, which TensorRT takes for a GPU of its own", () => {
    const partition = encoderPlan(b32, july, gpus.A10G, "1g.5gb");
    expect(partition.keyFields.gpu).toBe("A10G 8.6 MIG 1g.5gb");
    expect(partition.key).not.toBe(key);
  });

  it("on a CPU depends on neither image nor batch nor GPU", () => {
    const cpu = encoderPlan(onCpu, july, null).key;
    expect(encoderPlan({ ...onCpu, maxBatchSize: 8 }, releases["25.08"], gpus.A10G).key).toBe(cpu);
  });

  it("names no place, so a store elsewhere keeps it", () => {
    expect(JSON.stringify(encoderPlan(b32, july, gpus.A10G).keyFields)).not.toContain("/store");
  });
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

describe("every plan that has no problem", () => {
  const possible = fc
    .tuple(anySpec, anyTag)
    .filter(([spec]) => encoderProblems(spec, gpus.A10G).length === 0)
    .map(([spec, tag]) => ({ spec, plan: encoderPlan(spec, releases[tag], gpus.A10G) }));

  it("gives Triton no larger batch than the plan file takes, and orders its shapes", () => {
    fc.assert(
      fc.property(possible, ({ spec, plan }) => {
        for (const { steps: after, config, towerConfig } of plan.models) {
          const argv = after.find(({ name }) => name === "trtexec")?.argv;
          expect(argv === undefined).toBe(spec.device === "cpu");
          if (argv === undefined) continue;
          const largest = batchOf(argv, "max");
          expect(towerConfig.maxBatchSize).toBeLessThanOrEqual(largest);
          expect(config.maxBatchSize).toBeLessThanOrEqual(towerConfig.maxBatchSize);
          expect(plan.ensemble.maxBatchSize).toBeLessThanOrEqual(config.maxBatchSize);
          expect(batchOf(argv, "min")).toBe(1);
          expect(batchOf(argv, "opt")).toBeLessThanOrEqual(largest);
        }
      }),
    );
  });

  it("never asks for int8 on a graph without calibrated ranges", () => {
    fc.assert(
      fc.property(possible, ({ spec, plan }) => {
        for (const { steps: after } of plan.models) {
          const argv = after.flatMap((step) => (step.name === "trtexec" ? step.argv : []));
          const takesCalibrated = argv.some(
            (word) => word.startsWith("--onnx=") && word.endsWith(".qdq.onnx"),
          );
          const calibrates = after.some((step) => step.name === "calibrate");
          expect([takesCalibrated, calibrates]).toEqual([
            spec.precision === "int8",
            spec.precision === "int8",
          ]);
          expect(argv.includes("--int8") && !takesCalibrated).toBe(false);
          expect(
            argv.includes("--stronglyTyped") && (argv.includes("--fp16") || argv.includes("--int8")),
          ).toBe(false);
        }
      }),
    );
  });

  it("declares in every tower the tensors that its graph has", () => {
    fc.assert(
      fc.property(possible, ({ plan }) => {
        for (const { export: graph, towerConfig } of plan.models) {
          expect(towerConfig.inputs.map(({ name }) => name)).toEqual(graph.inputs);
          expect(towerConfig.outputs).toEqual([
            { name: graph.output, dataType: "TYPE_FP32", dims: [graph.dimension] },
          ]);
        }
      }),
    );
  });

  it("loads every model once, by name, with the file that its own commands write", () => {
    fc.assert(
      fc.property(possible, ({ plan }) => {
        const names = plan.tritonModels.map(({ config }) => config.name);
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
        for (const { config, files } of plan.tritonModels.filter(({ config: { name } }) =>
          name.endsWith("_tower"),
        )) {
          const [path] = Object.values(files);
          expect(written, config.name).toContain(`${plan.directory}/${path}`);
        }
      }),
    );
  });

  it("is the same, to the byte, each time", () => {
    fc.assert(
      fc.property(anySpec, anyTag, (spec, tag) => {
        fc.pre(encoderProblems(spec, gpus.A10G).length === 0);
        const plans = [0, 1].map(() => JSON.stringify(encoderPlan(spec, releases[tag], gpus.A10G)));
        expect(plans[1]).toBe(plans[0]);
      }),
    );
  });
});
