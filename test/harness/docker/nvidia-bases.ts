/**
 * Stand-ins for NVIDIA's images, which need a registry, a GPU and 18 GB: Debian with Python and pip, and stand-ins for
 * their programs at the same paths.
 */
import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { releases } from "../../../infra/plan/catalogue/releases.ts";
import { templateSet } from "../../../infra/plan/catalogue/templates.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { tutorialsStandIn } from "./tutorials.ts";

/** The release whose versions the stand-ins have. */
const RELEASE = releases["25.07"];

const STAND_INS = join(projectRoot, "test/harness/docker/nvidia-image");
const ENGINE_TOOLS = join(projectRoot, "containers/python/tests/fake_image");

/** Debian's packages that the images have from Ubuntu, and Open MPI, which NVIDIA's builds of its own. */
export const NVIDIA_BASE_PACKAGES = ["ca-certificates", "git", "openmpi-bin", "python3", "python3-pip"];

const TRITON = [
  "COPY bin/nvidia-smi /usr/bin/nvidia-smi",
  "COPY bin/tritonserver /opt/tritonserver/bin/tritonserver",
  "COPY bin/nvidia_entrypoint.sh /opt/nvidia/nvidia_entrypoint.sh",
  `ENV NVIDIA_TRITON_SERVER_VERSION=${RELEASE.tag}`,
  'ENTRYPOINT ["/opt/nvidia/nvidia_entrypoint.sh"]',
];

/** Repositories of GitHub, each with one commit; the backend's has TensorRT-LLM as its submodule. */
export const LOCAL_REPOSITORIES = { backend: "/srv/backend", tensorRtLlm: "/srv/tensorrt_llm" } as const;

/** Like GitHub, it sends only requested blobs. */
const GIT_COMMIT =
  "git config uploadpack.allowFilter true && git config uploadpack.allowAnySHA1InWant true && git -c user.name=t -c user.email=t@t commit --quiet -m files";

const TENSORRT_LLM = [
  "COPY app /app",
  "COPY packages /usr/lib/python3/dist-packages",
  "RUN ln -s /app/bin/trtllm-build /usr/local/bin/trtllm-build",
  "COPY bin/git /usr/local/bin/git",
  "COPY tutorials /srv/tutorials",
  `RUN cd /srv/tutorials && git init --quiet && git add . && ${GIT_COMMIT}`,
  `RUN mkdir -p ${LOCAL_REPOSITORIES.tensorRtLlm}/cpp && cd ${LOCAL_REPOSITORIES.tensorRtLlm} \
    && cp -r /app/examples . && touch LICENSE cpp/kernels.cu && git init --quiet && git add . && ${GIT_COMMIT}`,
  `RUN mkdir -p ${LOCAL_REPOSITORIES.backend}/scripts ${LOCAL_REPOSITORIES.backend}/ci && cd ${LOCAL_REPOSITORIES.backend} \
    && cp -r /app/all_models /app/tools . && touch LICENSE scripts/launch_triton_server.py ci/test.sh \
    && git init --quiet && git add . \
    && git update-index --add --cacheinfo "160000,$(git -C ${LOCAL_REPOSITORIES.tensorRtLlm} rev-parse HEAD),tensorrt_llm" \
    && ${GIT_COMMIT}`,
  "WORKDIR /app",
];

/**
 * A context with its Dockerfile, as long as `use` runs.
 *
 * @param debian - Tag of Debian with {@link NVIDIA_BASE_PACKAGES}.
 * @param kind - `trtllm-python-py3` of TensorRT-LLM, or `py3` with the other backends.
 */
export async function withNvidiaContext<T>(
  debian: string,
  kind: "trtllm-python-py3" | "py3",
  use: (directory: string) => Promise<T>,
): Promise<T> {
  const directory = await mkdtemp(join(tmpdir(), "engine-room-nvidia-"));
  try {
    await cp(STAND_INS, join(directory, "bin"), { recursive: true });
    if (kind === "trtllm-python-py3") await addTensorRtLlm(directory);
    const lines = [`FROM ${debian}`, ...TRITON, ...(kind === "trtllm-python-py3" ? TENSORRT_LLM : [])];
    await writeFile(join(directory, "Dockerfile"), `${lines.join("\n")}\n`);
    return await use(directory);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function addTensorRtLlm(directory: string): Promise<void> {
  for (const name of ["examples", "lib", "bin"])
    await cp(join(ENGINE_TOOLS, name), join(directory, "app", name), { recursive: true });
  await cp(join(STAND_INS, "fill_template.py"), join(directory, "app/tools/fill_template.py"));
  await writeFiles(join(directory, "app/all_models"), templates());
  for (const [name, version] of [
    ["tensorrt_llm", RELEASE.tensorRtLlm],
    ["tensorrt", RELEASE.tensorRt],
  ]) {
    const folder = join(directory, "packages", `${name}-${version}.dist-info`);
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, "METADATA"), `Metadata-Version: 2.1\nName: ${name}\nVersion: ${version}\n`);
  }
  await writeFiles(join(directory, "tutorials"), tutorialsStandIn());
}

async function writeFiles(folder: string, texts: Readonly<Record<string, string>>): Promise<void> {
  for (const [path, text] of Object.entries(texts)) {
    const file = join(folder, path);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, text);
  }
}

/** Files of all_models: of each template its placeholders, in quotes or without them as NVIDIA's has them. */
function templates(): Readonly<Record<string, string>> {
  const models = Object.entries(templateSet(RELEASE.templates)?.models ?? {});
  return {
    "llmapi/tensorrt_llm/config.pbtxt": 'name: "tensorrt_llm"\n',
    ...Object.fromEntries(
      models.map(([name, { mandatory, optional }]) => [
        `${name}/config.pbtxt`,
        [
          ...mandatory.map((key) => `${key}_field: [ \${${key}} ]`),
          ...optional.map((key) => `parameters: { key: "${key}" value: { string_value: "\${${key}}" } }`),
          "",
        ].join("\n"),
      ]),
    ),
  };
}
