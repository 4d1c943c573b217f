import { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { checkedPlan } from "../../infra/checked-plan.ts";
import { planImages } from "../../infra/image-inputs.ts";
import { InferenceStack, type InferenceStackArgs } from "../../infra/inference-stack.ts";
import { serverSpec } from "../../infra/plan/container-specs.ts";
import { ConfigError } from "../../infra/problems.ts";
import { explain, fillTemplateLines } from "../../scripts/plan/explain.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "engine-room-templates-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

function put(path: string, content: string | Buffer): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), content);
}

const stack = (templates: string | undefined, model: object = {}) => ({
  platform: "docker",
  host: { instanceType: "g5.4xlarge", diskGiB: 250 },
  encoders: false,
  models: [
    { name: "gpt", model: "gpt2-medium", triton: templates === undefined ? {} : { templates }, ...model },
  ],
});

function problemsOf(values: object): readonly string[] {
  try {
    checkedPlan(values as Record<string, unknown>);
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.problems.map(({ path, reason }) => `${path}: ${reason}`);
  }
}

function serverOf(values: object) {
  const { plan } = checkedPlan(values as Record<string, unknown>);
  if (plan.tier !== "gpu") throw new Error("A plan on GPUs is expected.");
  const [model] = plan.models;
  if (model === undefined) throw new Error("The plan has no model.");
  return { model, text: serverSpec(model, 30) };
}

const CONFIG = `name: "tensorrt_llm"
backend: "\${triton_backend}" # not \${a_placeholder}
max_batch_size: \${triton_max_batch_size}
parameters { key: 'gpt_model_path' value: { string_value: "\${engine_dir}" } }
`;

test("files of the folder reach the server in place of the release's, and another content is another server", () => {
  put("tensorrt_llm/config.pbtxt", CONFIG);
  put("postprocessing/1/model.py", "# mine\n");
  const first = serverOf(stack(folder));
  const models = JSON.parse(first.text).repository.models as { name: string; files?: object }[];
  expect(models.filter(({ files }) => files !== undefined).map(({ name, files }) => [name, files])).toEqual([
    ["postprocessing", { "1/model.py": "# mine\n" }],
    ["tensorrt_llm", { "config.pbtxt": CONFIG }],
  ]);
  // The release's values are filled into the user's own config.pbtxt.
  const lines = fillTemplateLines(first.model.repository).filter((line) =>
    /\/tensorrt_llm(\/|$)/m.test(line),
  );
  expect(lines.map((line) => line.split(" ")[0])).toEqual(["cp", "printf", "python3"]);
  put("postprocessing/1/model.py", "# mine, changed\n");
  const changed = serverOf(stack(folder));
  expect(changed.text).not.toBe(first.text);
  expect(changed.model.engine?.key).toBe(first.model.engine?.key);
  expect(serverOf(stack(undefined)).text).not.toContain("mine");
});

const PATH = "models[0].triton.templates";
const EINOPS = `einops==0.8.1 --hash=sha256:${"1".repeat(64)}`;
const FTFY = `ftfy==6.3.1 --hash=sha256:${"2".repeat(64)}`;

test.each([
  ["an empty folder", () => {}, "The folder has no file."],
  [
    "a folder of empty folders",
    () => mkdirSync(join(folder, "preprocessing/1"), { recursive: true }),
    "The folder has no file.",
  ],
  [
    "a link that leads to itself",
    () => {
      rmSync(folder, { recursive: true });
      symlinkSync(folder, folder);
    },
    /^The folder \S+ can't be read: ELOOP: /,
  ],
  [
    "a file of 3 GiB",
    () => {
      put("preprocessing/1/model.py", "#");
      truncateSync(join(folder, "preprocessing/1/model.py"), 3 * 2 ** 30);
    },
    "Its files have 3221225472 bytes, and servers of this platform get at most 500000.",
  ],
  [
    "a list of packages that is too long to be read",
    () => {
      put("requirements.txt", "#");
      truncateSync(join(folder, "requirements.txt"), 3 * 2 ** 30);
    },
    /^Its files have 3221225472 bytes/,
  ],
  [
    "the place of the template's own model.py",
    () => put("preprocessing/1/template_model.py", "#"),
    "preprocessing/1/template_model.py is where the server keeps a template's model.py that this project wraps.",
  ],
  [
    "a model that the repository lacks",
    () => put("tensorrtllm/config.pbtxt", CONFIG),
    /^tensorrtllm\/config\.pbtxt is of no model of the repository, which has ensemble, /,
  ],
  ["a file beside the models", () => put("notes.txt", "x"), /^notes\.txt is of no model/],
  [
    "a list of packages below a model",
    () => put("preprocessing/requirements.txt", "einops"),
    /only requirements\.txt at the top of the folder is installed, when the image is built/,
  ],
  ["another list of packages", () => put("requirements-dev.txt", "einops"), /^requirements-dev\.txt lists/],
  [
    "bytes that are no text",
    () => put("preprocessing/1/model.py", Buffer.from([0x80, 0])),
    "preprocessing/1/model.py is not text in UTF-8.",
  ],
  [
    "too many bytes",
    () => put("preprocessing/1/model.py", "#".repeat(500_001)),
    "Its files have 500001 bytes, and servers of this platform get at most 500000.",
  ],
  [
    "a link",
    () => {
      put("preprocessing/1/model.py", "#");
      symlinkSync("/etc/passwd", join(folder, "preprocessing/1/secrets.py"));
    },
    "preprocessing/1/secrets.py is a link, which may lead out of the folder.",
  ],
  [
    "a placeholder that the template lacks",
    () => put("tensorrt_llm/config.pbtxt", CONFIG.replace("engine_dir", "engin_dir")),
    /has the placeholder engin_dir, which the release's template of tensorrt_llm lacks/,
  ],
  [
    "a bracket that is not closed",
    () => put("tensorrt_llm/config.pbtxt", `${CONFIG}instance_group [`),
    /is not text of protobuf: line 5 ends with \] not closed/,
  ],
  [
    "another bracket",
    () => put("tensorrt_llm/config.pbtxt", "a { b: 1 ]\n"),
    /line 1 closes \] that is not open/,
  ],
  [
    "a quote that is not closed",
    () => put("tensorrt_llm/config.pbtxt", 'a: 1\nname: "x\n'),
    /line 2 has "\\"", which has no meaning/,
  ],
] as const)("%s is refused with a sentence", (_name, fill, reason) => {
  fill();
  const problems = problemsOf(stack(folder));
  expect(problems).toHaveLength(1);
  expect(problems[0]?.startsWith(`${PATH}: `)).toBe(true);
  expect(problems[0]?.slice(PATH.length + 2)).toEqual(
    typeof reason === "string" ? reason : expect.stringMatching(reason),
  );
});

test("files on a machine of EC2 have a lower limit, which the problem contains", () => {
  put("preprocessing/1/model.py", "#".repeat(32_001));
  const values = {
    ...stack(folder),
    platform: "aws",
    compute: "ec2",
    account: "111122223333",
    region: "us-east-1",
    pools: [{ name: "gpu", instanceType: "g5.4xlarge" }],
    images: { registry: "registry.example.org/engine-room" },
  };
  const { host: _host, ...ec2 } = values;
  // Servers don't get it.
  put("requirements.txt", `${EINOPS}\n${"# long\n".repeat(10_000)}`);
  expect(problemsOf(ec2)).toEqual([
    `${PATH}: Its files have 32001 bytes, and servers of this platform get at most 32000.`,
  ]);
});

const own = { registry: "registry.example.org/engine-room" };
const pools = [{ name: "gpu", instanceType: "g5.4xlarge" }];
const inCluster = { pools, images: own, host: undefined, engines: { whenFull: "stopServer" } };
const onAws = { ...inCluster, platform: "aws", account: "111122223333", region: "us-east-1" };

test.each([
  ["docker", {}],
  ["docker on a base of the user's own", { image: { base: "registry.example.org/tritonserver:25.07-own" } }],
  ["kubernetes", { ...inCluster, platform: "kubernetes" }],
  ["ec2", { ...onAws, compute: "ec2" }],
  ["eks", { ...onAws, compute: "eks", access: { apiCidrs: ["203.0.113.7/32"] } }],
])("the image that builds and serves gets the packages of requirements.txt: %s", (_name, platform) => {
  put("postprocessing/1/model.py", "# mine\n");
  const imagesOf = () => {
    const values = JSON.parse(JSON.stringify({ ...stack(folder), ...platform, encoders: {} }));
    const { plan } = checkedPlan(values);
    if (plan.tier !== "gpu") throw new Error("A plan on GPUs is expected.");
    const server = plan.models.map((model) => serverSpec(model, 30)).join();
    return { server, ...planImages(plan) };
  };
  const before = imagesOf();
  put("requirements.txt", `# of the tokenizer\n${FTFY}\n\n${EINOPS}\n`);
  const after = imagesOf();
  const changed = after.found.filter(
    ({ reference }) => !before.found.some((image) => image.reference === reference),
  );
  expect(changed).toEqual([
    expect.objectContaining({
      name: "trtllm",
      kind: "build",
      buildArguments: expect.objectContaining({ PYTHON_UPGRADES: `${EINOPS}\n${FTFY}` }),
    }),
  ]);
  expect(before.found).not.toContainEqual(
    expect.objectContaining({
      buildArguments: expect.objectContaining({ PYTHON_UPGRADES: expect.anything() }),
    }),
  );
  // Servers install none.
  expect(after.server).toBe(before.server);
  put("requirements.txt", FTFY.replace("6.3.1", "6.3.0"));
  expect(imagesOf().inputs.contentHashes.trtllm).not.toBe(after.inputs.contentHashes.trtllm);
});

test("the commands of a model install the packages by hand, and a release's beside them", () => {
  const linesOf = (values: object) => {
    const { plan } = checkedPlan(values as Record<string, unknown>);
    if (plan.tier !== "gpu") throw new Error("A plan on GPUs is expected.");
    return explain(plan, "gpt", "/store")
      .split("\n")
      .filter((text) => text.startsWith("printf '%s\\n'"));
  };
  put("requirements.txt", `${FTFY}\n${EINOPS}\n`);
  expect(linesOf(stack(folder))).toEqual([`printf '%s\\n' '${EINOPS}' '${FTFY}' > /tmp/requirements.txt`]);
  const newest = {
    ...stack(undefined, { model: "llama-2-7b", runtime: "llmapi", flavour: "llmapi" }),
    release: "26.07",
    acceptUnverified: true,
    hub: { token: "hf_example" },
  };
  expect(linesOf(newest)).toEqual([expect.stringContaining("'openai==1.109.1 --hash=sha256:")]);
  expect(linesOf(stack(undefined))).toEqual([]);
});

test("every line of requirements.txt that can't be installed is reported", () => {
  put("requirements.txt", `${EINOPS}\nftfy>=6\ntorch==2.8.0 --hash=sha256:${"3".repeat(64)}\n`);
  expect(problemsOf(stack(folder))).toEqual([
    `${PATH}: Line 2 of requirements.txt is not NAME==VERSION: the same files would give another image on another day.`,
    `${PATH}: Line 3 of requirements.txt would replace torch, whose version TensorRT-LLM in the image depends on.`,
  ]);
});

test("a missing folder is reported with the stack's other problems", () => {
  const problems = problemsOf(stack(join(folder, "missing"), { quantization: "int4_awq" }));
  expect(problems.map((problem) => problem.split(": ")[0])).toEqual([PATH, "models[0].quantization"]);
  expect(problems[0]).toContain(`There is no folder ${join(folder, "missing")}.`);
});

test("a file that the plan writes itself stays the plan's", () => {
  put("tensorrt_llm/1/model.yaml", "model: other\n");
  const values = {
    ...stack(folder, { model: "llama-2-7b", runtime: "llmapi", flavour: "llmapi" }),
    hub: { token: "hf_example" },
  };
  expect(problemsOf(values)).toEqual([
    `${PATH}: The plan writes tensorrt_llm/1/model.yaml from other keys of the model.`,
  ]);
});

test("a file where the project has one of its own is refused, and its model.py is not", () => {
  put("preprocessing/1/image_input.py", "# mine\n");
  put("preprocessing/1/model.py", "# mine\n");
  expect(problemsOf(stack(folder, { model: "blip2-opt-2.7b" }))).toEqual([
    expect.stringMatching(/: The server has a file of this project at preprocessing\/1\/image_input\.py\.$/),
  ]);
});

test("a relative folder in a user's own program starts from the program's folder", () => {
  put("own/notes.txt", "x");
  vi.spyOn(process, "cwd").mockReturnValue(folder);
  // A name each: a monitor of another test of this process takes the registrations.
  const make = (templates: string) =>
    new InferenceStack(`templates-${templates}`, {
      platform: "kubernetes",
      pools: [{ name: "gpu", instanceType: "g5.4xlarge" }],
      images: { registry: "registry.example.org/engine-room" },
      models: [{ name: "gpt", model: "gpt2-medium", triton: { templates } }],
    } as unknown as InferenceStackArgs);
  expect(() => make("missing")).toThrow(`There is no folder ${join(folder, "missing")}.`);
  expect(() => make("own")).toThrow("notes.txt is of no model");
});
