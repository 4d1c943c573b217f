/** Commands that Systems Manager runs on the machine, in order: files, setup, one build after the other, the services. */

import type { Ec2Config } from "../../../config/aws-stacks.ts";
import { ConfigError } from "../../../problems.ts";
import { isTask } from "../../containers/container.ts";
import { type DockerContainer, stopsFor } from "../../docker/container-args.ts";
import type { DockerStack } from "../../docker/docker-stack.ts";
import { SECRET_NAMES, type SecretName } from "../../docker/host.ts";
import { shellLine } from "../../engine/shell-line.ts";
import type { Ec2Plan } from "../../gpu-stack.ts";
import { jsonDigest } from "../../plain-data.ts";
import { type AwsContext, containerLogGroup } from "../context.ts";
import { fileText } from "../data-files.ts";
import { type ComposeProject, composeProject } from "./compose.ts";

/** A command that runs on the instance through Systems Manager, and that `up` waits for. */
export interface InstanceTask extends Command {
  /** With a hash of its content in the name: another content is another document, which runs again. */
  readonly document: { readonly name: string; readonly content: string };
  /** Time that `up` waits for success, including a busy agent's delay before it starts the task. */
  readonly waitSeconds: number;
}

interface Command {
  /** `files-1`, `setup`, `build-gpt2-medium-0123456789ab`, `services`. */
  readonly name: string;
  /** Shell text: idempotent, ends with exit code 0 when its build has ended or its services answer. */
  readonly script: string;
  /** How long the script may take. */
  readonly timeoutSeconds: number;
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
/** From the same page. */
const DOCUMENT_NAME_LENGTH = 128;
const HASH_DIGITS = 12;

/** Parameter by which another value of a secret makes the association another one. */
export const SECRET_VERSIONS = "secretVersions";

const PROGRAM = "/opt/engine-room/engine-room";

/** A secret that containers of the instance read. */
export interface InstanceSecret {
  readonly name: SecretName;
  /** Name of the secret that the stack makes in Secrets Manager; null: it exists already. */
  readonly secretName: string | null;
  /** ARN for a policy: `??????` stands for the end that Secrets Manager gives a secret of the stack. */
  readonly arn: string;
  readonly region: string;
}

interface InstanceHost {
  readonly plan: Ec2Plan;
  readonly stack: DockerStack;
  readonly secrets: readonly InstanceSecret[];
  readonly context: AwsContext;
}

/** A file of the machine: path, mode as text such as `0644`, and content. */
type MachineFile = readonly [path: string, mode: string, text: string];

/**
 * Tasks in the order in which they run: each waits for the previous task, since the agent runs associations in any order.
 *
 * @throws ConfigError when a document is larger than Systems Manager accepts.
 */
export function instanceTasks(host: InstanceHost): readonly InstanceTask[] {
  const { plan, stack, context } = host;
  const project = composeProject(stack, containerLogging(plan.config, context));
  const builds = stack.containers.filter(({ container }) => isTask(container));
  const commands = [
    ...fileCommands(project),
    setupCommand(host, project),
    ...builds.flatMap((build) => buildCommands(build, stack, project)),
  ];
  const tasks = commands.map((command) => instanceTask(command, context));
  return [...tasks, instanceTask(servicesCommand(host, tasks), context)];
}

/**
 * Docker's driver for CloudWatch, a stream for each container; null for files on the machine. It does not block a container that prints
 * more than CloudWatch accepts, and `docker logs` reads Docker's own copy.
 * https://docs.docker.com/engine/logging/drivers/awslogs and https://docs.docker.com/engine/logging/dual-logging
 */
function containerLogging(config: Ec2Config, context: AwsContext) {
  const group = containerLogGroup(config, context);
  if (group === null) return null;
  const options = {
    "awslogs-group": group.name,
    "awslogs-region": context.region,
    mode: "non-blocking",
    tag: "{{.Name}}",
  };
  return { driver: "awslogs", options };
}

/** Commands that write the files of the machine and its containers, as many as have room in each. */
function fileCommands(project: ComposeProject): readonly Command[] {
  const files: readonly MachineFile[] = [
    [PROGRAM, "0755", fileText("machine/engine-room.sh")],
    ["/etc/systemd/system/engine-room.service", "0644", fileText("machine/engine-room.service")],
    ...Object.entries(project.files).map(([path, text]) => [path, "0444", text] as const),
  ];
  const chunks: MachineFile[][] = [];
  const write = (chunk: readonly MachineFile[], number: number) => ({
    name: `files-${number}`,
    script: taskScript({ files: chunk }),
    timeoutSeconds: BOOT_SECONDS + SPARE_SECONDS,
    readsSecrets: false,
  });
  for (const file of files) {
    const last = chunks.at(-1);
    const hasRoom =
      last && Buffer.byteLength(documentContent(write([...last, file], chunks.length))) <= DOCUMENT_BYTES;
    if (hasRoom) last.push(file);
    else chunks.push([file]);
  }
  return chunks.map((chunk, index) => write(chunk, index + 1));
}

/** Writes the Compose file, and the values that `engine-room` reads: lists of names, and tables with one row a line. */
function setupCommand({ plan, stack, secrets, context }: InstanceHost, project: ComposeProject): Command {
  const { containers, volumes } = stack;
  const names = (areBuilds: boolean) =>
    containers
      .flatMap(({ container }) => (isTask(container) === areBuilds ? [container.name] : []))
      .join(" ");
  const values = shellVariables({
    STACK: context.stack,
    NETWORK: stack.network,
    VOLUMES: volumes.flatMap(({ name, isKept }) => (isKept ? [] : [name])).join(" "),
    // Name and number of the owner.
    DATABASE_VOLUMES: volumes
      .flatMap(({ name, isKept, userId }) => (isKept ? [`${name} ${userId ?? 0}`] : []))
      .join("\n"),
    DATABASE_DISK_GIB: plan.config.databaseStorage.sizeGiB,
    // File, name or ARN, and region.
    SECRETS: secrets
      .map(({ name, secretName, arn, region }) => `${SECRET_NAMES[name]} ${secretName ?? arn} ${region}`)
      .join("\n"),
    BUILD_NAMES: names(true),
    SERVICE_NAMES: names(false),
    GATEWAY_PORT: plan.gateway.port,
  });
  return {
    name: "setup",
    script: taskScript({
      files: [
        ["/etc/engine-room/next/compose.yaml", "0644", project.text],
        ["/etc/engine-room/next/stack.env", "0644", values],
      ],
      commands: [["setup"]],
    }),
    timeoutSeconds: BOOT_SECONDS + PULL_SECONDS + SPARE_SECONDS,
    readsSecrets: secrets.length > 0,
  };
}

/** Starts a build, and waits for a long one by further commands. */
function buildCommands(
  build: DockerContainer,
  stack: DockerStack,
  project: ComposeProject,
): readonly Command[] {
  const { name, timeoutSeconds } = build.container;
  const seconds = Math.ceil(timeoutSeconds ?? 0) + SPARE_SECONDS;
  const parts = Math.ceil(seconds / LONGEST_WAIT_SECONDS);
  const servers = stack.containers
    .filter((service) => stopsFor(service, build))
    .map(({ container }) => container.name);
  return Array.from({ length: parts }, (_, index) => {
    const waited = Math.min(LONGEST_WAIT_SECONDS, seconds - index * LONGEST_WAIT_SECONDS);
    const start = ["start_build", name, ...servers];
    const wait = ["await_build", name, String(waited), index === parts - 1 ? "1" : "0", ...servers];
    return {
      name: `build-${name}${index === 0 ? "" : `-${index + 1}`}`,
      script: taskScript({
        comments: [`definition ${project.digests[name]}, at most ${seconds} s`],
        commands: index === 0 ? [start, wait] : [wait],
      }),
      timeoutSeconds: waited + SPARE_SECONDS,
      readsSecrets: false,
    };
  });
}

/**
 * Starts changed services, and waits until they answer. It runs again after any other task: a build stops servers, and new
 * secrets or images are for them. A machine whose type changes starts again, with all its services.
 */
function servicesCommand({ plan, stack, secrets }: InstanceHost, before: readonly InstanceTask[]): Command {
  const services = stack.containers.filter(({ container }) => !isTask(container));
  const readyWithin = Math.max(0, ...services.map(({ args }) => args.waitTimeout ?? 0)) + SPARE_SECONDS;
  const read = new Set(services.flatMap(({ container }) => Object.values(container.secretFiles)));
  return {
    name: "services",
    script: taskScript({
      comments: [
        `on ${plan.spec.pools[0]?.instanceType}`,
        ...before.map(({ document }) => `after ${document.name}`),
      ],
      commands: [["services", String(readyWithin)]],
    }),
    timeoutSeconds: readyWithin + SPARE_SECONDS,
    readsSecrets: secrets.some(({ name }) => read.has(name)),
  };
}

interface Script {
  readonly comments?: readonly string[];
  readonly files?: readonly MachineFile[];
  /** Arguments of `engine-room`. */
  readonly commands?: readonly (readonly string[])[];
}

/** Nothing in it has two braces behind each other, by which Systems Manager marks parameters: files are base64. */
function taskScript({ comments = [], files = [], commands = [] }: Script): string {
  return [
    fileText("machine/task.sh").trimEnd(),
    ...comments.map((comment) => `# ${comment}`),
    ...files.map(([path, mode, text]) => `put ${mode} ${path} ${Buffer.from(text).toString("base64")}`),
    ...commands.map((argv) => shellLine([PROGRAM, ...argv]).replaceAll(" \\\n  ", " ")),
  ].join("\n");
}

/**
 * The document's name has a hash of the content, so that a change replaces the association and runs it:
 * `waitForSuccessTimeoutSeconds` applies only on creation (`resourceAssociationCreate` of terraform-provider-aws).
 *
 * @throws ConfigError when it is larger than Systems Manager accepts.
 */
function instanceTask(command: Command, { name: stackName }: AwsContext): InstanceTask {
  const content = documentContent(command);
  const bytes = Buffer.byteLength(content);
  if (bytes > DOCUMENT_BYTES)
    throw new ConfigError([
      {
        path: "models",
        value: command.name,
        reason: `The instructions of the instance in one command have ${bytes} bytes, and Systems Manager takes ${DOCUMENT_BYTES}.`,
        fix: "Serve fewer models on the instance, or write `compute: eks`.",
      },
    ]);
  const hash = jsonDigest(content).slice(0, HASH_DIGITS);
  const prefix = `${stackName}-${command.name}`.slice(0, DOCUMENT_NAME_LENGTH - HASH_DIGITS - 1);
  return {
    ...command,
    document: { name: `${prefix}-${hash}`, content },
    waitSeconds: command.timeoutSeconds + AGENT_SECONDS,
  };
}

function documentContent({ name, script, timeoutSeconds, readsSecrets }: Command): string {
  const secretVersions = {
    type: "String",
    description: "Versions of the secrets, which the script does not read: another one runs it again.",
    allowedPattern: "^[A-Za-z0-9 -]+$",
    default: "none",
  };
  return JSON.stringify({
    schemaVersion: "2.2",
    description: `engine-room: ${name}`,
    ...(readsSecrets ? { parameters: { [SECRET_VERSIONS]: secretVersions } } : {}),
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

/** `NAME='value'` for a shell, one a line. */
export function shellVariables(values: Readonly<Record<string, string | number>>): string {
  return Object.entries(values)
    .map(([name, value]) => `${name}='${String(value).replaceAll("'", "'\\''")}'\n`)
    .join("");
}
