import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  languageModelConfig,
  llavaEnsembleConfig,
  PYTHON_MODELS,
  pythonModelFiles,
  textEncoderConfig,
  visionEncoderConfig,
} from "../../../../infra/plan/repository/cpu-models.ts";
import { type Message, renderTextFormat } from "../../../../infra/plan/repository/model-config.ts";
import { fillTemplate, type ParameterFacts } from "../../../../infra/plan/repository/parameters.ts";
import {
  type RepositoryPlan,
  repositoryPlan,
  valueObstacle,
} from "../../../../infra/plan/repository/repository-plan.ts";
import { cloneLines, fillTemplateArgument, fillTemplateLines } from "../../../../scripts/plan/explain.ts";
import { projectRoot } from "../../../../scripts/program/stack-file.ts";
import { recordedText } from "./recorded-text.ts";
import { enginePlanFor, modelSpec } from "./specs.ts";

/** Like fast-check's own "binary", which takes a second to make; characters that would break a line come more often. */
const anyCharacter = fc
  .oneof(
    fc.constantFrom(...[...'\0\n\r\t"\\'].map((character) => character.charCodeAt(0))),
    fc.integer({ min: 0, max: 0xd7ff }),
    fc.integer({ min: 0xe000, max: 0x10ffff }),
  )
  .map((codePoint) => String.fromCodePoint(codePoint));

test("any string stays within its quotes and its line", () => {
  fc.assert(
    fc.property(fc.string({ unit: anyCharacter, maxLength: 60 }), (text) => {
      const [literal = "", ...more] = renderTextFormat({ key: text }).slice("key: ".length).split("\n");
      expect(more).toEqual([""]);
      expect(JSON.parse(literal)).toBe(text);
    }),
  );
});

const encoders = {
  maxBatchSize: 64,
  maxQueueDelayMicroseconds: 0,
  dynamicBatching: true,
  text: { dimension: 384, maxTokens: 256 },
  vision: { dimension: 512 },
};

const ownThreads = { intra_op_threads: 2 };

const languageModel = { parallelRequests: 8, contextTokens: 1024, maxTokens: 512, threads: 0 };

const configs = [textEncoderConfig, visionEncoderConfig, llavaEnsembleConfig] as const;

test.each([
  ["text_encoder", textEncoderConfig(encoders, ownThreads)],
  ["vision_encoder", visionEncoderConfig(encoders, ownThreads)],
  ["llava_ensemble", llavaEnsembleConfig(encoders)],
  ["ensemble", languageModelConfig(languageModel)],
])("config.pbtxt of %s on a CPU is as recorded", recordedText);

test("a batch has at most 16 images, and in the ensemble no more than both encoders accept", () => {
  const sizes = (maxBatchSize: number) =>
    configs.map((config) => /^max_batch_size: (\d+)$/m.exec(config({ ...encoders, maxBatchSize }, {}))?.[1]);
  expect(sizes(64)).toEqual(["64", "16", "16"]);
  expect(sizes(4)).toEqual(["4", "4", "4"]);
});

test("encoders without dynamic batching have no queue delay", () => {
  const settings = { ...encoders, dynamicBatching: false, maxQueueDelayMicroseconds: 500 };
  for (const config of configs) expect(config(settings, {})).not.toContain("dynamic_batching");
});

test("delay, threads and lengths of encoders are in their configuration", () => {
  const text = { dimension: 768, maxTokens: 128 };
  const config = textEncoderConfig(
    { ...encoders, maxQueueDelayMicroseconds: 750, text },
    { intra_op_threads: 3 },
  );
  for (const part of [
    "dynamic_batching {\n  max_queue_delay_microseconds: 750\n}",
    'key: "intra_op_threads"\n  value {\n    string_value: "3"',
    'key: "max_tokens"\n  value {\n    string_value: "128"',
    'name: "text_embedding"\n  data_type: TYPE_FP32\n  dims: 768\n',
  ])
    expect(config).toContain(part);
});

test("a message has its fields in order, lists repeated, and no empty fields", () => {
  const message: Message = {
    name: "m",
    count: -1,
    absent: undefined,
    none: [],
    dims: [3, 224],
    kind: { enumValue: "KIND_CPU" },
    inner: { flag: true, deeper: [{ key: "a" }, {}] },
  };
  expect(renderTextFormat(message)).toBe(
    [
      'name: "m"',
      "count: -1",
      "dims: 3",
      "dims: 224",
      "kind: KIND_CPU",
      "inner {",
      "  flag: true",
      "  deeper {",
      '    key: "a"',
      "  }",
      "  deeper {",
      "  }",
      "}",
      "",
    ].join("\n"),
  );
});

/** Modules that a file imports from its own folder, at its top or in a function. */
function imported(source: string): string[] {
  const text = readFileSync(join(projectRoot, PYTHON_MODELS, source), "utf8");
  return [...text.matchAll(/^\s*from \.(\w+) import /gm)].map(([, module]) => `1/${module}.py`);
}

describe.each(["ensemble", "text_encoder", "vision_encoder"] as const)("Python of %s", (name) => {
  const files = pythonModelFiles(name);

  test("a model's folder has model.py, and other modules under their own names", () => {
    expect(files).toHaveProperty(["1/model.py"]);
    const renamed = Object.entries(files).filter(([inner, source]) => basename(inner) !== basename(source));
    expect(renamed.map(([inner]) => inner).filter((inner) => inner !== "1/model.py")).toEqual([]);
  });

  test("a model's folder has exactly the modules that its Python imports", () => {
    const wanted = new Set(Object.values(files).flatMap(imported));
    expect([...wanted, "1/model.py"].toSorted()).toEqual(Object.keys(files).toSorted());
  });
});

/** `split` of tools/fill_template.py at v0.16.0, step by step. */
function split(text: string, delimiter: string): string[] {
  const result: string[] = [];
  let current = "";
  let escaped = false;
  for (const char of text) {
    if (escaped) {
      current += char;
      escaped = false;
    } else if (char === delimiter) {
      result.push(current);
      current = "";
    } else if (char === "\\") {
      escaped = true;
    } else {
      current += char;
    }
  }
  return [...result, current];
}

/** Parses an argument as the script does; fails if a part has not exactly one colon. */
function understood(argument: string, escapesCommas: boolean): Record<string, string> {
  const cut = escapesCommas ? split : (text: string, delimiter: string) => text.split(delimiter);
  return Object.fromEntries(
    cut(argument, ",").map((part) => {
      const [key, value, ...rest] = cut(part, ":");
      if (key === undefined || value === undefined || rest.length > 0)
        throw new Error(`can't unpack ${part}`);
      return [key, value];
    }),
  );
}

const keys = fc.stringMatching(/^[a-z_]{1,12}$/);

test("arguments of fill_template.py join keys and values as the guides do", () => {
  const argument = fillTemplateArgument({ engine_dir: "/e", decoupled_mode: "False" });
  expect(argument).toBe("engine_dir:/e,decoupled_mode:False");
});

test("arguments escape a comma once and a colon twice: the script removes an escape at each split", () => {
  expect(fillTemplateArgument({ a: "0,1;2,3", b: "x:y" })).toBe("a:0\\,1;2\\,3,b:x\\\\:y");
});

test("fill_template.py reads back every value that can be filled in", () => {
  const values = fc
    .string({ unit: fc.constantFrom(..."ab/:,;=. 字") })
    .filter((value) => valueObstacle(value, { escapesCommas: true }) === null);
  fc.assert(
    fc.property(fc.dictionary(keys, values, { minKeys: 1, noNullPrototype: true }), (substitutions) => {
      const argument = fillTemplateArgument(substitutions);
      expect(understood(argument, true)).toEqual(substitutions);
    }),
  );
  const plain = fc.stringMatching(/^[a-zA-Z0-9/._ -]*$/);
  fc.assert(
    fc.property(fc.dictionary(keys, plain, { minKeys: 1, noNullPrototype: true }), (substitutions) => {
      const argument = fillTemplateArgument(substitutions);
      expect(understood(argument, false)).toEqual(substitutions);
    }),
  );
});

test.each([
  ["/a,b", false],
  ["s3://b", false],
  ['/a"b', true],
  ["C:\\a", true],
  ["$" + "{HOME}", true],
  ["/a\nb", true],
])("%j can't be filled in if commas can be escaped: %s", (value, escapesCommas) => {
  expect(valueObstacle(value, { escapesCommas })).not.toBeNull();
});

describe("filling a template", () => {
  const model = modelSpec("llama-2-7b", "v0.20.0", "inflight_batcher_llm");
  const facts: ParameterFacts = {
    model,
    engine: enginePlanFor(model),
    templates: { escapesCommas: true, seedField: "seed", models: {} },
    kvCacheFreeGpuMemoryFraction: 0.5,
  };
  const template = "inflight_batcher_llm/tensorrt_llm";

  test("a placeholder of a new release without a rule is an error that names it", () => {
    expect(() => fillTemplate(template, { mandatory: [], optional: ["new_knob"] }, facts)).toThrow(
      /has the placeholder new_knob, for which repository\/parameters.ts has no rule/,
    );
  });

  test("a mandatory placeholder without a value is an error", () => {
    expect(() => fillTemplate(template, { mandatory: ["sink_token_length"], optional: [] }, facts)).toThrow(
      /does not load without sink_token_length/,
    );
  });

  test("values and defaults of a template are sorted", () => {
    const keysOfTemplate = {
      mandatory: ["triton_max_batch_size"],
      optional: ["sink_token_length", "engine_dir"],
    };
    const filled = fillTemplate(template, keysOfTemplate, facts);
    expect(Object.keys(filled.substitutions)).toEqual(["engine_dir", "triton_max_batch_size"]);
    expect(Object.keys(filled.defaults)).toEqual(["sink_token_length"]);
  });
});

const FRACTION = 0.5;

function planOf(...spec: Parameters<typeof modelSpec>): RepositoryPlan {
  const model = modelSpec(...spec);
  const engine = model.serving.runtime === "engine" ? enginePlanFor(model) : null;
  return repositoryPlan(model, engine, FRACTION);
}

test("the LLaVA tutorial's repository is copied and filled", () => {
  const engine = "/store/engines/llava-1.5-7b/0123456789ab";
  const from = "/tutorials/Popular_Models_Guide/Llava1.5/model_repository";
  expect(fillTemplateLines(planOf("llava-1.5-7b", "v0.20.0", "llava"))).toEqual([
    "mkdir -p /model-repository",
    `cp -r ${from}/llava-1.5 /model-repository/llava-1.5`,
    `cp -r ${from}/tensorrt_llm /model-repository/tensorrt_llm`,
    "python3 /app/tools/fill_template.py -i /model-repository/tensorrt_llm/config.pbtxt " +
      `enable_chunked_context:False,enable_kv_cache_reuse:False,engine_dir:${engine}/llm,kv_cache_free_gpu_mem_fraction:0.5`,
    `cp -r ${from}/vision_encoder /model-repository/vision_encoder`,
  ]);
});

// The fill_template.py of these releases aborts on a key that the file lacks.
test("preprocessing of TensorRT-LLM 1.1 is filled with the keys of docs/multimodal.md at r26.02 and its tokenizer's", () => {
  const lines = fillTemplateLines(planOf("llava-1.5-7b", "v1.1.0", "multimodal"));
  const line = lines.find((one) => one.includes("-i /model-repository/preprocessing/config.pbtxt")) ?? "";
  const keys = (line.split(" ").at(-1) ?? "").split(",").map((pair) => pair.split(":")[0]);
  expect(keys.sort()).toEqual([
    "add_special_tokens",
    "engine_dir",
    "max_num_images",
    "max_queue_delay_microseconds",
    "max_queue_size",
    "multimodal_model_path",
    "preprocessing_instance_count",
    "tokenizer_dir",
    "triton_max_batch_size",
  ]);
});

test("the version folder that Git doesn't keep is created", () => {
  expect(fillTemplateLines(planOf("vila1.5-3b", "v0.20.0", "multimodal"))).toEqual(
    expect.arrayContaining([
      "cp -r /app/all_models/multimodal/ensemble /model-repository/ensemble",
      "mkdir -p /model-repository/ensemble/1",
    ]),
  );
});

test("a clone fetches its commit and submodule", () => {
  const [backend] = planOf("llama-2-7b", "v0.9.0", "inflight_batcher_llm").clones;
  expect(backend && cloneLines(backend)).toEqual([
    "git init /tensorrtllm_backend",
    "git -C /tensorrtllm_backend fetch --depth 1 https://github.com/triton-inference-server/tensorrtllm_backend.git" +
      " 76464e9be06600f3979acad9c14857938a66ff9f",
    "git -C /tensorrtllm_backend checkout --detach FETCH_HEAD",
    "GIT_LFS_SKIP_SMUDGE=1 git -C /tensorrtllm_backend submodule update --init --depth 1 tensorrt_llm",
  ]);
});

describe("filling a repository in a shell", () => {
  let root: string;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), "fill-lines-"));
  });
  afterEach(() => {
    rmSync(root, { recursive: true });
  });

  /** Runs all lines but Python, with every place below a folder of this test. */
  function type(plan: RepositoryPlan): void {
    const moved = { ...plan, allModels: join(root, "all_models"), path: join(root, "repository") };
    const lines = fillTemplateLines(moved).filter((line) => !/^python3 /.test(line));
    execFileSync("bash", ["-euc", lines.join("\n")]);
  }

  function template(path: string, config: string): void {
    mkdirSync(join(root, "all_models", path, "1"), { recursive: true });
    writeFileSync(join(root, "all_models", path, "config.pbtxt"), config);
  }

  const read = (path: string) => readFileSync(join(root, "repository", path), "utf8");

  test("the BLS gets the model's name, and names of tensors stay", () => {
    for (const name of ["preprocessing", "tensorrt_llm", "postprocessing"]) {
      template(`inflight_batcher_llm/${name}`, `name: "${name}"\n`);
    }
    template(
      "inflight_batcher_llm/tensorrt_llm_bls",
      'name: "tensorrt_llm_bls"\nbackend: "python"\ninput [\n  {\n    name: "text_input"\n  }\n]\n',
    );
    type(planOf("llama-2-7b", "v0.20.0", "tritonCli"));
    expect(readdirSync(join(root, "repository")).sort()).toEqual([
      "llama-2-7b",
      "postprocessing",
      "preprocessing",
      "tensorrt_llm",
    ]);
    expect(read("llama-2-7b/config.pbtxt")).toBe(
      'backend: "python"\ninput [\n  {\n    name: "text_input"\n  }\n]\nname: "llama-2-7b"\n',
    );
    expect(read("tensorrt_llm/config.pbtxt")).toBe('name: "tensorrt_llm"\n');
  });

  test("all_models/gpt gets its batches limited in a shell", () => {
    for (const name of ["ensemble", "preprocessing", "tensorrt_llm", "postprocessing"]) {
      template(`gpt/${name}`, `name: "${name}"\nmax_batch_size: 1024\n`);
    }
    type(planOf("gpt2-medium", "v0.20.0", "gpt"));
    expect(read("ensemble/config.pbtxt")).toBe('name: "ensemble"\nmax_batch_size: 4\n');
  });

  test("model.yaml is written to the byte in a shell", () => {
    template("llmapi/tensorrt_llm", 'name: "tensorrt_llm"\n');
    const path = "/models/it's $HOME `x` %s";
    const plan = planOf("llama-2-7b", "v1.1.0", "llmapi", {
      engine: { weights: { kind: "folder", path, revision: "1" } },
    });
    type(plan);
    expect(read("tensorrt_llm/1/model.yaml")).toBe(plan.models[0]?.files?.["1/model.yaml"]);
    expect(read("tensorrt_llm/config.pbtxt")).toBe(
      'name: "tensorrt_llm"\nmodel_transaction_policy: { decoupled: false }\n',
    );
  });
});
