/** A Docker host with a GPU: programs `docker` and `nvidia-smi` in a folder for the PATH. */
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { objectName } from "../../../infra/plan/docker/host-objects.ts";
import type { DockerGpuPlan } from "../../../infra/plan/gpu-stack.ts";

const STARTED = "2026-01-01T00:00:00.000000000Z";
/** 12.5 s later. */
const SERVES =
  "2026-01-01T00:00:12.500000000Z I0101 00:00:12.5 1 http_server.cc:4755] Started HTTPService at 0.0.0.0:8000";

/** Accepts only the arguments of the commands. */
const DOCKER = `#!/bin/sh
here=\${0%/*}
case "$1" in
  ps) cat "$here/ids" ;;
  inspect) cat "$here/inspect.json" ;;
  exec) [ "$3" = cat ] && cat "$here/files/$4" ;;
  logs) shift; [ "$1 $2 $4" = "--timestamps --since --until" ] && cat "$here/logs/$6" >&2 ;;
  *) echo "nobody expects docker $*" >&2; exit 1 ;;
esac
`;

/** @param gpu - nvidia-smi's name of the GPU; null without nvidia-smi. @returns A folder for the PATH. */
export function fakeHost(folder: string, stack: string, plan: DockerGpuPlan, gpu: string | null): string {
  const path = join(folder, `host-${stack}`);
  const write = (name: string, text: string, isProgram = false) => {
    const file = join(path, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
    if (isProgram) chmodSync(file, 0o755);
  };
  write("docker", DOCKER, true);
  if (gpu === null) write("nvidia-smi", "#!/bin/sh\necho 'No devices were found'\nexit 6\n", true);
  else write("nvidia-smi", `#!/bin/sh\necho '0, ${gpu}, 23028, 20000, 575.57.08, [N/A]'\n`, true);

  const names = [...plan.models.map(({ name }) => name), ...(plan.encoders === null ? [] : ["encoders"])];
  const containers = names.map((name) => ({
    Id: `id-${name}`,
    Name: `/${objectName(stack, name)}`,
    RestartCount: 0,
    State: { Status: "running", ExitCode: 0, StartedAt: STARTED },
  }));
  write("ids", containers.map(({ Id }) => `${Id}\n`).join(""));
  write("inspect.json", JSON.stringify(containers));
  for (const name of names) write(`logs/${objectName(stack, name)}`, `${STARTED} a first line\n${SERVES}\n`);
  for (const { engine } of plan.models) {
    if (engine === null) continue;
    const seconds = { download: 0, convert: 10.2, llm: 44.6, check: 21.3 };
    write(
      `files/${engine.directory}/manifest.json`,
      JSON.stringify({ version: 1, key: engine.key, seconds }),
    );
  }
  if (plan.encoders !== null) {
    const steps = plan.encoders.models.flatMap(({ name: model }) => [
      { model, step: "export", seconds: 4 },
      { model, step: "trtexec", seconds: 30.5 },
    ]);
    write(
      `files/${plan.encoders.directory}/manifest.json`,
      JSON.stringify({ version: 1, key: plan.encoders.key, steps }),
    );
  }
  return path;
}
