/**
 * Differences between a line of a document and the container that does the same, one correction each. The table of
 * docs/walkthroughs/README.md gives the reason of each by its name.
 */
import { type RunLine, type RunOption, runLine } from "./run-line.ts";

/** A container as the test expects it. */
export interface ExpectedContainer {
  readonly stack: string;
  readonly name: string;
  readonly alias: string;
  readonly model: string;
  /** Engine key. */
  readonly key: string;
  readonly task: "build" | "serve";
  /** Port of the host for HTTP; the next two are gRPC's and that of metrics. */
  readonly httpPort: number;
  readonly gpus: string;
  /** Whether the stack has a token of the model hub. */
  readonly hasToken: boolean;
  readonly startPeriodSeconds: number;
}

type Correction = (line: RunLine, expected: ExpectedContainer) => RunLine;

const HEALTH = `python3 -c 'import urllib.request; urllib.request.urlopen("http://127.0.0.1:8000/v2/health/ready", timeout=4)'`;

export const corrections = {
  "detached, with a name and a restart policy": (line, { name, task }) =>
    changed(line, ["--rm", "-it", "-ti"], {
      "--detach": [null],
      "--name": [name],
      "--restart": task === "serve" ? ["unless-stopped"] : [],
    }),

  "its own network, ports on loopback": (line, { stack, alias, task, httpPort }) =>
    changed(line, ["--network"], {
      "--network": [`${stack}-network`],
      "--network-alias": [alias],
      "--publish":
        task === "build" ? [] : [0, 1, 2].map((offset) => `127.0.0.1:${httpPort + offset}:${8000 + offset}`),
    }),

  "its own shared memory": (line) => changed(line, ["--ipc"], {}),

  "the same limits for every container": (line) =>
    changed(line, ["--shm-size", "--ulimit"], {
      "--shm-size": ["2g"],
      "--ulimit": ["memlock=-1", "stack=67108864"],
    }),

  "MPI's data in a hash": (line) => changed(line, ["--env"], { "--env": ["PMIX_MCA_gds=hash"] }),

  "one store instead of folders": (line, { stack, task }) =>
    changed(line, ["--volume", "--workdir"], {
      "--env": task === "build" ? ["TMPDIR=/scratch"] : [],
      "--volume":
        task === "build"
          ? [`${stack}-store:/store`, `${stack}-scratch:/scratch`]
          : [`${stack}-store:/store:ro`],
    }),

  "the hub's token in a file": (line, { task, hasToken }) =>
    task === "build" && hasToken
      ? changed(line, [], {
          "--env": ["HF_TOKEN_PATH=/run/secrets/hub-token"],
          "--volume": ["/etc/engine-room/hub-token:/run/secrets/hub-token:ro"],
        })
      : line,

  "the GPUs of the model": (line, { gpus }) => changed(line, ["--gpus"], { "--gpus": [gpus] }),

  "an image that builds and serves by itself": (line, { task }) =>
    runLine(
      line.options,
      `registry.example.org/trtllm@sha256:${"0".repeat(64)}`,
      task === "build"
        ? ["engine_builder", "build", "/etc/engine-room/engine.json"]
        : ["triton_entrypoint", "serve", "/etc/engine-room/server.json"],
    ),

  "the image in the manifest": (line, { task }) =>
    task === "build" ? changed(line, [], { "--env": [`ENGINE_ROOM_IMAGE=${line.image}`] }) : line,

  "a check that it is ready": (line, { task, startPeriodSeconds }) =>
    task === "build"
      ? line
      : changed(line, [], {
          "--health-cmd": [HEALTH],
          "--health-interval": ["10s"],
          "--health-timeout": ["5s"],
          "--health-retries": ["3"],
          "--health-start-period": [`${startPeriodSeconds}s`],
        }),

  "time to finish": (line, { task }) =>
    changed(line, [], { "--stop-timeout": [task === "build" ? "30" : "60"] }),

  "logs that end": (line) =>
    changed(line, [], {
      "--log-driver": ["json-file"],
      "--log-opt": ["max-file=3", "max-size=10m"],
    }),

  labels: (line, { stack, model, key, task }) =>
    changed(line, [], {
      "--label": [
        `engine-room.key=${key}`,
        `engine-room.model=${model}`,
        `engine-room.role=${task === "build" ? "engineBuild" : "triton"}`,
        `engine-room.stack=${stack}`,
      ],
    }),
} satisfies Record<string, Correction>;

/** A document's line with every correction. */
export function corrected(line: RunLine, expected: ExpectedContainer): RunLine {
  return Object.values<Correction>(corrections).reduce((inner, correct) => correct(inner, expected), line);
}

function changed(
  { options, image, command }: RunLine,
  without: readonly string[],
  added: Readonly<Record<string, readonly (string | null)[]>>,
): RunLine {
  const kept = options.filter(([name]) => !without.includes(name));
  const more = Object.entries(added).flatMap(([name, values]) =>
    values.map((value): RunOption => [name, value]),
  );
  return runLine([...kept, ...more], image, command);
}
