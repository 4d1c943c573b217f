/** Commands that Systems Manager runs on the machine, in order: files, setup, one build after the other, the services. */
import { readFileSync } from "node:fs";
import { ConfigError } from "../../../problems.ts";
import { jsonDigest } from "../../canonical-json.ts";
import { type Container, isTask } from "../../containers/container.ts";
import { type DockerContainer, stopsFor } from "../../docker/container-args.ts";
import type { DockerStack } from "../../docker/docker-stack.ts";
import { shellLine } from "../../engine/shell-line.ts";
import type { AwsContext } from "../types.ts";
import { type ComposeProject, composeProject, secretFileName } from "./compose.ts";
import type { InstanceSecret } from "./instance-role.ts";

/** A command that runs on the instance through Systems Manager, and that `up` waits for. */
export interface InstanceTask {
  /** `files-1`, `setup`, `build-gpt2-medium-0123456789ab`, `services`. */
  readonly name: string;
  /** Shell text: idempotent, ends with exit code 0 when what it starts has ended or answers. */
  readonly script: string;
  /** With a hash of its content in the name: another content is another document, which runs again. */
  readonly document: { readonly name: string; readonly content: string };
  /** How long the script may take. */
  readonly timeoutSeconds: number;
  /** How long `up` waits for its success: the agent has to come for it, and may be busy with the one before. */
  readonly waitSeconds: number;
  /** Whether it runs again when a secret has another value. */
  readonly readsSecrets: boolean;
}

/** The largest image has 17 GB to download, and twice that to unpack. */
const PULL_SECONDS = 3600;
/** From the start of a machine until its user data have ended: drivers, disks, and a file system's first mount. */
const BOOT_SECONDS = 900;
/** Until the agent has come for an association, and has said how it ended. */
const AGENT_SECONDS = 600;
/** For what stops and starts around a wait. */
const SPARE_SECONDS = 300;
/**
 * The agent calls an association stuck that is in progress for two hours (`documentLevelTimeOutDurationHour` of
 * amazon-ssm-agent), so that a longer build is waited for by several.
 */
const LONGEST_WAIT_SECONDS = 6000;

/** 64 KB of https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_CreateDocument.html, less what parameters take. */
const DOCUMENT_BYTES = 60_000;
/** Of the same page. */
const DOCUMENT_NAME_LENGTH = 128;
const HASH_DIGITS = 12;

/** Parameter by which another value of a secret makes the association another one. */
export const SECRET_VERSIONS = "secretVersions";

const PROGRAM = "/opt/engine-room/engine-room";
const UNIT = "/etc/systemd/system/engine-room.service";
const NEXT_FOLDER = "/etc/engine-room/next";

/** What a task is made of; the rest follows from its content and its place. */
type Draft = Pick<InstanceTask, "name" | "script" | "timeoutSeconds" | "readsSecrets">;

interface InstanceHost {
  readonly stack: DockerStack;
  /** Name of the stack. */
  readonly stackName: string;
  readonly secrets: readonly InstanceSecret[];
  readonly databaseDiskGiB: number;
  readonly instanceType: string;
  /** Of the machine, where the gateway answers. */
  readonly gatewayPort: number;
}

/** A file of the machine. */
interface MachineFile {
  readonly path: string;
  /** As text: `0644`. */
  readonly mode: string;
  readonly text: string;
}

/**
 * Tasks in the order in which they run: each waits for the one before it, since the agent runs associations in any order.
 *
 * @throws ConfigError where one file is larger than Systems Manager takes.
 */
export function instanceTasks(host: InstanceHost, context: AwsContext): readonly InstanceTask[] {
  const project = composeProject(host.stack);
  const builds = host.stack.containers.filter(({ container }) => isTask(container));
  const task = (draft: Draft): InstanceTask => ({
    ...draft,
    document: taskDocument(draft, context),
    waitSeconds: draft.timeoutSeconds + AGENT_SECONDS,
  });
  const tasks = [
    ...setupTasks(host, project),
    ...builds.flatMap((build) => buildTasks(build, host.stack, project)),
  ].map(task);
  return [...tasks, task(servicesTask(host, tasks))];
}

/** Commands that write the files of the machine and its containers, as many as have room in each, and the setup. */
function setupTasks(host: InstanceHost, project: ComposeProject): readonly Draft[] {
  const files: readonly MachineFile[] = [
    { path: PROGRAM, mode: "0755", text: machineFile("engine-room.sh") },
    { path: UNIT, mode: "0644", text: machineFile("engine-room.service") },
    ...Object.entries(project.files).map(([path, text]) => ({ path, mode: "0444", text })),
  ];
  const chunks: MachineFile[][] = [];
  const write = (chunk: readonly MachineFile[], number: number): Draft => ({
    name: `files-${number}`,
    script: taskScript(chunk, []),
    timeoutSeconds: BOOT_SECONDS + SPARE_SECONDS,
    readsSecrets: false,
  });
  for (const file of files) {
    const last = chunks.at(-1);
    if (last === undefined || !hasRoom(write([...last, file], chunks.length))) chunks.push([file]);
    else last.push(file);
  }
  const stackFiles = [
    { path: `${NEXT_FOLDER}/compose.yaml`, mode: "0644", text: project.text },
    { path: `${NEXT_FOLDER}/stack.env`, mode: "0644", text: stackEnvironment(host) },
  ];
  return [
    ...chunks.map((chunk, index) => write(chunk, index + 1)),
    {
      name: "setup",
      script: taskScript(stackFiles, [[PROGRAM, "setup"]]),
      timeoutSeconds: BOOT_SECONDS + PULL_SECONDS + SPARE_SECONDS,
      readsSecrets: host.secrets.length > 0,
    },
  ];
}

/** Values that `engine-room` reads: lists of names, and tables with one row a line. */
function stackEnvironment({ stack, stackName, secrets, databaseDiskGiB, gatewayPort }: InstanceHost): string {
  const { containers, volumes } = stack;
  const namesOf = (isWanted: (container: Container) => boolean) =>
    containers.flatMap(({ container }) => (isWanted(container) ? [container.name] : [])).join(" ");
  return shellVariables({
    STACK: stackName,
    NETWORK: stack.network,
    VOLUMES: volumes.flatMap(({ name, isKept }) => (isKept ? [] : [name])).join(" "),
    // Name and number of the owner.
    DATABASE_VOLUMES: volumes
      .flatMap(({ name, isKept, userId }) => (isKept ? [`${name} ${userId ?? 0}`] : []))
      .join("\n"),
    DATABASE_DISK_GIB: databaseDiskGiB,
    // File, name or ARN, and region.
    SECRETS: secrets
      .map(({ name, secretName, arn, region }) => `${secretFileName(name)} ${secretName ?? arn} ${region}`)
      .join("\n"),
    BUILD_NAMES: namesOf(isTask),
    SERVICE_NAMES: namesOf((container) => !isTask(container)),
    GATEWAY_PORT: gatewayPort,
  });
}

/** A build, and further tasks that wait for a long one. */
function buildTasks(build: DockerContainer, stack: DockerStack, project: ComposeProject): readonly Draft[] {
  const { name, timeoutSeconds } = build.container;
  const seconds = Math.ceil(timeoutSeconds ?? 0) + SPARE_SECONDS;
  const parts = Math.ceil(seconds / LONGEST_WAIT_SECONDS);
  const servers = stack.containers
    .filter((service) => stopsFor(service, build))
    .map(({ container }) => container.name);
  return Array.from({ length: parts }, (_, index) => {
    const waited = Math.min(LONGEST_WAIT_SECONDS, seconds - index * LONGEST_WAIT_SECONDS);
    const isLast = index === parts - 1;
    const start = [PROGRAM, "start_build", name, ...servers];
    const wait = [PROGRAM, "await_build", name, String(waited), isLast ? "1" : "0", ...servers];
    return {
      name: `build-${name}${index === 0 ? "" : `-${index + 1}`}`,
      script: taskScript([], index === 0 ? [start, wait] : [wait], [
        `definition ${project.digests[name]}, at most ${seconds} s`,
      ]),
      timeoutSeconds: waited + SPARE_SECONDS,
      readsSecrets: false,
    };
  });
}

/**
 * Starts what changed, and waits until all of it answers. It runs again after any other task: a build takes servers away, and
 * new secrets or images are for them. A machine that becomes another type starts again, with all that it runs.
 */
function servicesTask(
  { stack, instanceType, secrets }: InstanceHost,
  before: readonly InstanceTask[],
): Draft {
  const services = stack.containers.filter(({ container }) => !isTask(container));
  const readyWithin = Math.max(0, ...services.map(({ args }) => args.waitTimeout ?? 0)) + SPARE_SECONDS;
  const read = new Set(services.flatMap(({ container }) => Object.values(container.secretFiles)));
  return {
    name: "services",
    script: taskScript(
      [],
      [[PROGRAM, "services", String(readyWithin)]],
      [`on ${instanceType}`, ...before.map(({ document }) => `after ${document.name}`)],
    ),
    timeoutSeconds: readyWithin + SPARE_SECONDS,
    readsSecrets: secrets.some(({ name }) => read.has(name)),
  };
}

/** Nothing in it has two braces behind each other, by which Systems Manager marks parameters: files are base64. */
function taskScript(
  files: readonly MachineFile[],
  commands: readonly (readonly string[])[],
  comments: readonly string[] = [],
): string {
  return [
    machineFile("task.sh").trimEnd(),
    ...comments.map((comment) => `# ${comment}`),
    ...files.map(
      ({ path, mode, text }) => `put ${mode} ${path} ${Buffer.from(text, "utf8").toString("base64")}`,
    ),
    ...commands.map((argv) => shellLine(argv).replaceAll(" \\\n  ", " ")),
  ].join("\n");
}

function hasRoom(draft: Draft): boolean {
  return Buffer.byteLength(documentContent(draft), "utf8") <= DOCUMENT_BYTES;
}

/**
 * The name has a hash of the content: `waitForSuccessTimeoutSeconds` holds when an association is made, not when it changes
 * (`resourceAssociationCreate` of terraform-provider-aws), and another name makes it anew, and run.
 *
 * @throws ConfigError where it is larger than Systems Manager takes.
 */
function taskDocument(draft: Draft, { name: stackName }: AwsContext): InstanceTask["document"] {
  const content = documentContent(draft);
  const bytes = Buffer.byteLength(content, "utf8");
  if (bytes > DOCUMENT_BYTES) throw tooLarge(draft.name, bytes);
  const hash = jsonDigest(content).slice(0, HASH_DIGITS);
  const prefix = `${stackName}-${draft.name}`.slice(0, DOCUMENT_NAME_LENGTH - HASH_DIGITS - 1);
  return { name: `${prefix}-${hash}`, content };
}

function documentContent({ name, script, timeoutSeconds, readsSecrets }: Draft): string {
  return JSON.stringify({
    schemaVersion: "2.2",
    description: `engine-room: ${name}`,
    ...(readsSecrets
      ? {
          parameters: {
            [SECRET_VERSIONS]: {
              type: "String",
              description:
                "Versions of the secrets, which the script does not read: another one runs it again.",
              allowedPattern: "^[A-Za-z0-9 -]+$",
              default: "none",
            },
          },
        }
      : {}),
    mainSteps: [
      {
        action: "aws:runShellScript",
        name: "run",
        precondition: { StringEquals: ["platformType", "Linux"] },
        inputs: { timeoutSeconds: String(timeoutSeconds), runCommand: script.split("\n") },
      },
    ],
  });
}

function tooLarge(task: string, bytes: number): ConfigError {
  return new ConfigError([
    {
      path: "models",
      value: task,
      reason: `What the instance is told in one command has ${bytes} bytes, and Systems Manager takes ${DOCUMENT_BYTES}.`,
      fix: "Serve fewer models on the instance, or write `compute: eks`.",
    },
  ]);
}

type MachineFileName =
  | "engine-room.format-databases.service"
  | "engine-room.service"
  | "engine-room.sh"
  | "format-databases.sh"
  | "srv-databases.mount"
  | "task.sh"
  | "user-data.sh";

/** Files beside this one, which shellcheck and systemd-analyze read as they are. */
const texts = new Map<MachineFileName, string>();

/** Text of a file, read once. */
export function machineFile(name: MachineFileName): string {
  const known = texts.get(name);
  if (known !== undefined) return known;
  const text = readFileSync(new URL(name, import.meta.url), "utf8");
  texts.set(name, text);
  return text;
}

/** `NAME='value'` for a shell, one a line. */
export function shellVariables(values: Readonly<Record<string, string | number>>): string {
  return Object.entries(values)
    .map(([name, value]) => `${name}='${String(value).replaceAll("'", "'\\''")}'\n`)
    .join("");
}
