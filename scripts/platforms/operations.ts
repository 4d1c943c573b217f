/** Operations of the commands on one stack. Each platform has its own; only ./index.ts asks on which platform a stack is. */
import { existsSync, rmSync } from "node:fs";
import { relative } from "node:path";
import type { StackOutputs } from "../../infra/outputs.ts";
import type { Endpoints } from "../../infra/plan/endpoints.ts";
import type { GenaiPerfRequest, GenaiPerfRun } from "../bench/genai-perf.ts";
import type { ServerChange } from "../cluster/sleep.ts";
import type { ClaimPort, ConnectedPart, ForwardCommand } from "../connect/forwards.ts";
import { UsageError } from "../errors.ts";
import type { ImageTarget } from "../images/image-states.ts";
import type { engineFinding } from "../preflight/docker-facts.ts";
import type { CheckResult, Finding } from "../preflight/finding.ts";
import type { HostProbe } from "../preflight/host-probe.ts";
import { projectRoot, type StackReference } from "../program/stack-file.ts";
import type { AwsTarget } from "../program/targets.ts";
import { alignedLines } from "../stack/endpoint-table.ts";
import { stackPaths } from "../stack/stack-paths.ts";
import type { Deployment, StackRecord } from "../stack/state.ts";

/** Input of a platform's module: the stack, and the values of its file, which need not be valid. */
export interface StackSource {
  readonly stack: StackReference;
  readonly values: Readonly<Record<string, unknown>>;
}

export interface Preflight {
  /** Checked place: `this machine`, `ssh://gpu`, `the account 111122223333 in us-east-1`. */
  readonly host: string;
  readonly findings: readonly Finding[];
  /** All checks, if the findings are grouped by them. */
  readonly checks?: readonly CheckResult[];
}

/** State of a stack's processes, containers or workloads. */
export interface StatusReport {
  readonly services: readonly object[];
  /** Whether all planned services run. */
  readonly isHealthy: boolean;
  /** Text with the same content. */
  readonly text: string;
}

interface LogOptions {
  /** Number of last lines. */
  readonly lines: string;
  readonly follow: boolean;
}

/** A program with its arguments, which prints a log or is a shell. */
export interface ServiceProgram {
  readonly argv: readonly [string, ...string[]];
  readonly environment?: NodeJS.ProcessEnv;
}

/** An address of the stack and the address of this machine that leads to it. */
interface ForwardedAddress {
  readonly name: string;
  readonly localAddress: string;
  readonly address: string;
}

/** Ports of a stack, forwarded to this machine by programs that run meanwhile. */
export interface Forwarding {
  readonly addresses: readonly ForwardedAddress[];
  /** Title of the column with remote addresses. */
  readonly where: string;
  /** @throws UserError if they can't be opened. */
  commands(): Promise<readonly ForwardCommand[]>;
  /** Those of this machine. */
  readonly endpoints: Endpoints;
  /** Outputs with the stack's own endpoints. @param known - Outputs of the stack's state. */
  outputs(known: () => Promise<StackOutputs>): Promise<StackOutputs>;
}

/** An ssh that forwards all ports of a Docker host. */
interface Tunnel {
  readonly argv: readonly string[];
  readonly addresses: readonly (ForwardedAddress & { readonly localPort: number })[];
}

/** Images of a stack, and access to the engine that builds them. */
export interface StackImages {
  readonly target: ImageTarget;
  /** Finding for an engine that does not answer. */
  readonly engineFinding: typeof engineFinding;
  /** Account whose ECR stores the images; null for another registry, or without images. */
  readonly aws: AwsTarget | null;
}

/** Reach of endpoints that are forwarded to this machine. */
export const HERE = { gatewayReach: "host", reach: "host" } as const;

/** The engine of this machine, which builds the images of clusters and of machines on AWS. */
export const OWN_ENGINE = "unix:///var/run/docker.sock";

export interface Operations {
  /** `platform` of the stack file. */
  readonly platform: string;
  /** Whether the try-out runner applies it; otherwise only the Pulumi CLI does. */
  readonly isForTryout: boolean;
  /** Command that starts the stack. */
  readonly upCommand: "start" | "up";
  /**
   * Whether its machines are paid for by the hour: `up` and `down` ask first, `down` deletes documents too, and the state is one that several machines use.
   */
  readonly isRented: boolean;
  /** Plural noun for the lists of `logs`: `containers`, `processes`. */
  readonly logged: string;

  /** @throws UserError if credentials are missing, or another account's. */
  requireAccess(): Promise<void>;
  /** Requires access, and lets kubectl find a cluster that the stack made. */
  prepare(): Promise<void>;
  preflight(): Promise<Preflight>;
  status(): Promise<StatusReport>;
  /** By service. */
  logs(options: LogOptions): Promise<ReadonlyMap<string, ServiceProgram>>;
  /** A shell where each service runs, by service. It takes a terminal if standard input is one. */
  shells(): Promise<ReadonlyMap<string, ServiceProgram>>;
  /** @throws UserError for what GenAI-Perf can't measure. */
  genaiPerf(request: GenaiPerfRequest): Promise<GenaiPerfRun>;
  /** null when the platform runs without images. */
  images(): StackImages | null;

  /** null when the endpoints are reachable as they are, or by {@link tunnel}. */
  forwarding(parts: readonly ConnectedPart[], claimPort?: ClaimPort): Promise<Forwarding> | null;
  /** Endpoints by only the stack file, if they are not forwarded; null if ports are chosen when the stack starts. */
  plannedEndpoints(): Endpoints | null;
  /** Whether ssh leads to the stack, whose addresses are another machine's. */
  isBehindSsh(): boolean;
  /** null when the stack is not reached by ssh. */
  tunnel(): Promise<Tunnel> | null;
  /** The stack's Docker host; null when it can't be asked. */
  hostProbe(): HostProbe | null;

  /**
   * @param print - Called with each part that is done: a later one may fail.
   * @returns The change of each server; empty if only machines are stopped.
   * @throws UsageError if neither servers nor machines are an API's to scale.
   */
  sleep(print: (text: string) => void): Promise<readonly ServerChange[]>;
  /**
   * @param print - As that of `sleep`.
   * @returns The change of each server, and whether all servers of the stack file were found.
   * @throws UserError if machines and pods that it waits for do not come.
   */
  wake(
    print: (text: string) => void,
  ): Promise<{ readonly isComplete: boolean; readonly servers: readonly ServerChange[] }>;

  /**
   * Checks that this machine has the programs of `up`, and installs missing programs.
   * @param install - Whether without a question.
   * @throws UserError with all problems.
   */
  installPrograms(install: boolean): Promise<void>;
  /**
   * Opens a cluster's API to networks that the stack file names now, before `up` and `down` ask it.
   * @param print - Called with a line for each step. @throws UserError if it can't be opened.
   */
  openApi(print: (line: string) => void): Promise<void>;
  /** Starts and sizes machines before `up`. @returns A line for each change. */
  beforeUp(): Promise<readonly string[]>;
  /** Removes the remains of a killed command. @returns Names. */
  removeLeftovers(state: () => Promise<Deployment>): Promise<readonly string[]>;
  /**
   * Checks that the stack may be deleted.
   * @throws UserError if the host does not answer, or the account has resources that are missing from the state.
   */
  beforeDown(record: () => Promise<StackRecord>, forget: () => Promise<void>): Promise<void>;
  /** Deletes documents, or prints where they are kept. @returns Whether the remaining costs are known. */
  afterDown(deletesData: boolean, out: NodeJS.WriteStream): Promise<boolean>;
}

type Required = "logged" | "preflight" | "status" | "logs" | "shells" | "genaiPerf" | "images";

/** Shell of all containers; `-t` of `docker exec` and `kubectl exec` fails if standard input is not a terminal. */
export const SHELL = "bash";
export const interactive = () => (process.stdin.isTTY ? "-it" : "-i");

/** Operations for a platform without its own. */
export function defaultOperations({ stack, values }: StackSource): Omit<Operations, Required> {
  const notScaled = (command: string, instead: string, effect: string) =>
    new UsageError(
      `${command} is for stacks in a Kubernetes cluster or on AWS, and the stack ${stack.name} has \`platform: ${values.platform}\`; \`npx engine-room ${instead} --stack ${stack.name}\` ${effect}.`,
    );
  const nothing = async () => {};
  return {
    platform: String(values.platform),
    isForTryout: false,
    upCommand: "start",
    isRented: false,
    requireAccess: nothing,
    prepare: nothing,
    forwarding: () => null,
    plannedEndpoints: () => null,
    isBehindSsh: () => false,
    tunnel: () => null,
    hostProbe: () => null,
    sleep: () => Promise.reject(notScaled("sleep", "down", "ends it and keeps its documents")),
    wake: () => Promise.reject(notScaled("wake", "start", "brings it up")),
    installPrograms: nothing,
    openApi: nothing,
    beforeUp: async () => [],
    removeLeftovers: async () => [],
    beforeDown: nothing,
    async afterDown(deletesData) {
      const { data } = stackPaths(stack.name);
      if (!deletesData && existsSync(data)) sayKept(relative(projectRoot, data), stack);
      return deleteDocuments(stack, deletesData);
    },
  };
}

/** Deletes the documents of this machine if requested. @returns True: no costs remain. */
export function deleteDocuments({ name }: StackReference, deletesData: boolean): boolean {
  const { data } = stackPaths(name);
  if (deletesData && existsSync(data)) {
    rmSync(data, { recursive: true, force: true });
    process.stderr.write(`The documents in ${relative(projectRoot, data)} were deleted.\n`);
  }
  return true;
}

export function sayKept(where: string, { name }: StackReference): void {
  process.stderr.write(
    `The documents are kept in ${where}; \`npx engine-room down --stack ${name} --delete-data\` deletes them.\n`,
  );
}

/** @param rows - Cells of each service. @param notes - Sentences below them. */
export function statusReport(
  services: readonly object[],
  isHealthy: boolean,
  rows: readonly (readonly string[])[],
  notes: readonly (string | false)[],
): StatusReport {
  const lines = [...alignedLines(rows), ...notes.filter((note) => note !== false)];
  return { services, isHealthy, text: lines.map((line) => `${line}\n`).join("") };
}
