/**
 * Stands in for NVIDIA's images, which need a registry, a GPU and 18 GB: Debian with Python and pip, and stand-ins for their
 * programs in the places where the images have them.
 */
import { chmod, cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { releases } from "../../../infra/plan/catalogue/releases.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { tutorialsStandIn } from "./tutorials.ts";

/** Its versions are the ones that the images have. */
const RELEASE = releases["25.07"];

const STAND_INS = join(projectRoot, "test/harness/docker/nvidia-image");
const ENGINE_TOOLS = join(projectRoot, "containers/trtllm/tests/fake_image");
const RANK_TOOLS = join(projectRoot, "containers/trtllm/tests/entrypoint_fakes");

/** Debian's packages that the images have from Ubuntu. */
export const NVIDIA_BASE_PACKAGES = ["ca-certificates", "git", "python3", "python3-pip"];

const TRITON = [
  "COPY bin/nvidia-smi /usr/bin/nvidia-smi",
  "COPY bin/tritonserver /opt/tritonserver/bin/tritonserver",
  "COPY bin/nvidia_entrypoint.sh /opt/nvidia/nvidia_entrypoint.sh",
  `ENV NVIDIA_TRITON_SERVER_VERSION=${RELEASE.tag}`,
  'ENTRYPOINT ["/opt/nvidia/nvidia_entrypoint.sh"]',
];

const TENSORRT_LLM = [
  "COPY app /app",
  "COPY packages /usr/lib/python3/dist-packages",
  "COPY bin/mpirun /usr/local/bin/mpirun",
  "RUN ln -s /app/bin/trtllm-build /usr/local/bin/trtllm-build",
  "COPY bin/git /usr/local/bin/git",
  "COPY tutorials /srv/tutorials",
  "RUN cd /srv/tutorials && git init --quiet && git add . && git -c user.name=t -c user.email=t@t commit --quiet -m files",
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
  await cp(join(RANK_TOOLS, "mpirun"), join(directory, "bin/mpirun"));
  await chmod(join(directory, "bin/mpirun"), 0o755);
  for (const [name, version] of [
    ["tensorrt_llm", RELEASE.tensorRtLlm],
    ["tensorrt", RELEASE.tensorRt],
  ]) {
    const folder = join(directory, "packages", `${name}-${version}.dist-info`);
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, "METADATA"), `Metadata-Version: 2.1\nName: ${name}\nVersion: ${version}\n`);
  }
  for (const [path, text] of Object.entries(tutorialsStandIn())) {
    const file = join(directory, "tutorials", path);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, text);
  }
}
