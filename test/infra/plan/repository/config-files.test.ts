import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  type EncoderSettings,
  type LanguageModelSettings,
  languageModelConfig,
  llavaEnsembleConfig,
  PYTHON_MODELS,
  pythonModelFiles,
  textEncoderConfig,
  visionEncoderConfig,
} from "../../../../infra/plan/repository/cpu-models.ts";
import {
  cloneLines,
  fillTemplateArgument,
  fillTemplateLines,
  valueObstacle,
} from "../../../../infra/plan/repository/fill-template.ts";
import type { RepositoryPlan } from "../../../../infra/plan/repository/flavours.ts";
import {
  type Message,
  type ModelConfig,
  quote,
  renderModelConfig,
  renderTextFormat,
} from "../../../../infra/plan/repository/model-config.ts";
import {
  fillTemplate,
  type ParameterFacts,
  parameterRules,
} from "../../../../infra/plan/repository/parameters.ts";
import { repositoryPlan } from "../../../../infra/plan/repository/repository-plan.ts";
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

/** Every field that the renderer knows, with strings that try to break out of their quotes. */
const everything: ModelConfig = {
  name: 'quo"te } \\ 名前 😀',
  backend: "python",
  maxBatchSize: 8,
  inputs: [{ name: "in\nput", dataType: "TYPE_FP16", dims: [-1, 3, 224, 224], optional: true }],
  outputs: [{ name: "out\u0000put", dataType: "TYPE_STRING", dims: [1] }],
  dynamicBatching: { maxQueueDelayMicroseconds: 500 },
  instanceGroups: [
    { kind: "KIND_GPU", count: 2 },
    { kind: "KIND_CPU", count: 1 },
  ],
  warmups: [
    {
      name: "zeros",
      batchSize: 1,
      inputs: [{ name: "in\nput", dataType: "TYPE_FP16", dims: [3, 224, 224] }],
    },
  ],
  decoupled: true,
  parameters: { "b'": "$(date)", a: '" } parameters { key: "x" value { string_value: "y' },
};

test("config.pbtxt with every field is as recorded", async () => {
  await recordedText("everything", renderModelConfig(everything));
});

test("config.pbtxt leaves out fields without a value, so that Triton's defaults hold", () => {
  const minimal: ModelConfig = {
    name: "m",
    backend: "python",
    maxBatchSize: 0,
    inputs: [],
    outputs: [],
    decoupled: false,
  };
  expect(renderModelConfig(minimal)).toBe('name: "m"\nbackend: "python"\nmax_batch_size: 0\n');
});

test("config.pbtxt is the same whatever the order of parameters and maps", () => {
  const entries = fc.uniqueArray(fc.tuple(fc.string(), fc.string()), {
    selector: ([key]) => key,
    maxLength: 8,
  });
  fc.assert(
    fc.property(entries, (pairs) => {
      const text = (ordered: typeof pairs) =>
        renderModelConfig({
          name: "m",
          platform: "ensemble",
          maxBatchSize: 1,
          inputs: [],
          outputs: [],
          ensembleSteps: [
            {
              modelName: "a",
              inputMap: Object.fromEntries(ordered),
              outputMap: Object.fromEntries(ordered),
            },
          ],
          parameters: Object.fromEntries(ordered),
        });
      expect(text(pairs.toReversed())).toBe(text(pairs));
    }),
  );
});

test("config.pbtxt keeps any string within its line", () => {
  fc.assert(
    fc.property(fc.string({ unit: anyCharacter }), (value) => {
      const lines = (text: string) =>
        renderModelConfig({ ...everything, parameters: { key: text } }).split("\n").length;
      expect(lines(value)).toBe(lines("plain"));
    }),
  );
});

const encoders: EncoderSettings = {
  maxBatchSize: 64,
  maxQueueDelayMicroseconds: 0,
  dynamicBatching: true,
  threads: 2,
  text: { dimension: 384, maxTokens: 256 },
  vision: { dimension: 512 },
};

const languageModel: LanguageModelSettings = {
  parallelRequests: 8,
  contextTokens: 1024,
  maxTokens: 512,
  threads: 0,
};

test.each([
  ["text_encoder", textEncoderConfig],
  ["vision_encoder", visionEncoderConfig],
  ["llava_ensemble", llavaEnsembleConfig],
] as const)("config.pbtxt of %s on a CPU is as recorded", async (name, config) => {
  await recordedText(name, renderModelConfig(config(encoders)));
});

test("a batch has at most 16 images, and in the ensemble no more than both encoders take", () => {
  const sizes = (maxBatchSize: number) =>
    [textEncoderConfig, visionEncoderConfig, llavaEnsembleConfig].map(
      (config) => config({ ...encoders, maxBatchSize }).maxBatchSize,
    );
  expect(sizes(64)).toEqual([64, 16, 16]);
  expect(sizes(4)).toEqual([4, 4, 4]);
});

test("encoders without dynamic batching have no queue delay", () => {
  const config = { ...encoders, dynamicBatching: false, maxQueueDelayMicroseconds: 500 };
  expect(renderModelConfig(textEncoderConfig(config))).not.toContain("dynamic_batching");
  expect(renderModelConfig(visionEncoderConfig(config))).not.toContain("dynamic_batching");
});

test("delay, threads and lengths of encoders are in their configuration", () => {
  const config = textEncoderConfig({
    ...encoders,
    maxQueueDelayMicroseconds: 750,
    threads: 3,
    text: { dimension: 768, maxTokens: 128 },
  });
  expect(config).toMatchObject({
    dynamicBatching: { maxQueueDelayMicroseconds: 750 },
    instanceGroups: [{ kind: "KIND_CPU", count: 1 }],
    parameters: { intra_op_threads: "3", max_tokens: "128" },
    outputs: [{ name: "text_embedding", dims: [768] }, { name: "token_count" }],
  });
});

test("config.pbtxt of a language model on a CPU is as recorded", async () => {
  await recordedText("ensemble", renderModelConfig(languageModelConfig(languageModel)));
});

test("a language model on a CPU is decoupled, in one process, with batches of one request", () => {
  expect(languageModelConfig(languageModel)).toMatchObject({
    maxBatchSize: 1,
    decoupled: true,
    instanceGroups: [{ kind: "KIND_CPU", count: 1 }],
  });
});

test("a language model on a CPU lets 64 requests wait", () => {
  expect(languageModelConfig(languageModel).parameters).toMatchObject({ max_queued_requests: "64" });
});

/** Reads a literal as the specification says: named escapes, and bytes in three octal digits. */
function unquote(literal: string): string {
  const named: Record<string, number> = { n: 10, r: 13, t: 9, '"': 34, "\\": 92 };
  const bytes: number[] = [];
  for (const [part] of literal.slice(1, -1).matchAll(/\\[0-7]{3}|\\[nrt"\\]|[^"\\\n]/g)) {
    const escaped = part.slice(1);
    if (part.length === 1) bytes.push(part.charCodeAt(0));
    else bytes.push(named[escaped] ?? Number.parseInt(escaped, 8));
  }
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(bytes));
}

test.each([
  ["plain", '"plain"'],
  ["", '""'],
  ['a "b" \\ c', '"a \\"b\\" \\\\ c"'],
  ["line\nnext\r\ttab", '"line\\nnext\\r\\ttab"'],
  ["\u0000\u007f", '"\\000\\177"'],
  ["é", '"\\303\\251"'],
  ["😀", '"\\360\\237\\230\\200"'],
  ["\u00007", '"\\0007"'],
  ['" } parameters { key: "x', '"\\" } parameters { key: \\"x"'],
])("the text %j is written as %s", (text, literal) => {
  expect(quote(text)).toBe(literal);
});

test("a string literal is printable ASCII and reads back as the text", () => {
  fc.assert(
    fc.property(fc.string({ unit: anyCharacter, maxLength: 60 }), (text) => {
      const literal = quote(text);
      expect(literal).toMatch(/^"[ -~]*"$/);
      expect(unquote(literal)).toBe(text);
    }),
  );
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

/** Modules that a file imports from its own folder, at its head or where they are needed. */
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

/** What the script understands; it fails where a part has not exactly one colon. */
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
  const argument = fillTemplateArgument(
    { engine_dir: "/e", decoupled_mode: "False" },
    { escapesCommas: false },
  );
  expect(argument).toBe("engine_dir:/e,decoupled_mode:False");
});

test("arguments escape a comma once and a colon twice: the script unescapes at each split", () => {
  expect(fillTemplateArgument({ a: "0,1;2,3", b: "x:y" }, { escapesCommas: true })).toBe(
    "a:0\\,1;2\\,3,b:x\\\\:y",
  );
});

test("fill_template.py reads back every value that can be filled in", () => {
  const values = fc
    .string({ unit: fc.constantFrom(..."ab/:,;=. 字") })
    .filter((value) => valueObstacle(value, { escapesCommas: true }) === null);
  fc.assert(
    fc.property(fc.dictionary(keys, values, { minKeys: 1, noNullPrototype: true }), (substitutions) => {
      const argument = fillTemplateArgument(substitutions, { escapesCommas: true });
      expect(understood(argument, true)).toEqual(substitutions);
    }),
  );
  const plain = fc.stringMatching(/^[a-zA-Z0-9/._ -]*$/);
  fc.assert(
    fc.property(fc.dictionary(keys, plain, { minKeys: 1, noNullPrototype: true }), (substitutions) => {
      const argument = fillTemplateArgument(substitutions, { escapesCommas: false });
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
])("fillTemplateArgument refuses %j where commas can be escaped: %s", (value, escapesCommas) => {
  expect(() => fillTemplateArgument({ engine_dir: value }, { escapesCommas })).toThrow(
    /^engine_dir can't be/,
  );
});

describe("filling a template", () => {
  const model = modelSpec("llama-2-7b", "v0.20.0", "inflight_batcher_llm");
  const facts: ParameterFacts = {
    model,
    engine: enginePlanFor(model),
    kvCacheFreeGpuMemoryFraction: 0.5,
    decoupled: false,
    takesImages: false,
  };
  const template = "inflight_batcher_llm/tensorrt_llm";
  const rules = parameterRules[template] ?? {};

  test("a placeholder of a new release without a rule is an error that names it", () => {
    expect(() => fillTemplate(template, { mandatory: [], optional: ["new_knob"] }, facts, rules)).toThrow(
      /has the placeholder new_knob, for which repository\/parameters.ts has no rule/,
    );
  });

  test("a mandatory placeholder without a value is an error", () => {
    expect(() =>
      fillTemplate(template, { mandatory: ["sink_token_length"], optional: [] }, facts, rules),
    ).toThrow(/does not load without sink_token_length/);
  });

  test("values and defaults of a template are sorted", () => {
    const keysOfTemplate = {
      mandatory: ["triton_max_batch_size"],
      optional: ["sink_token_length", "engine_dir"],
    };
    const filled = fillTemplate(template, keysOfTemplate, facts, rules);
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

test("the version folder that Git doesn't keep is made", () => {
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

test("a model with files and without a template has a folder made", () => {
  const plan = planOf("gpt2-medium", "v0.20.0", "gpt");
  const model = {
    name: "own",
    template: null,
    substitutions: {},
    defaults: {},
    files: { "config.pbtxt": "a: 1\n" },
  };
  expect(fillTemplateLines({ ...plan, models: [model] })).toEqual([
    "mkdir -p /model-repository",
    "mkdir -p /model-repository/own/1",
    "printf %s $'a: 1\\n' > /model-repository/own/config.pbtxt",
  ]);
});

test("a plan with an unknown template set is refused", () => {
  const plan = planOf("gpt2-medium", "v0.20.0", "gpt");
  expect(() => fillTemplateLines({ ...plan, templates: "v9" })).toThrow("No set of templates is called v9.");
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
