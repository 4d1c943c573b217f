/** What `npm start` needs of this machine for a stack of `platform: local`. */
import type { LocalPlan } from "../../infra/plan/cpu-stack.ts";
import { diskFindings } from "./disk-check.ts";
import { type Finding, isOlder } from "./finding.ts";
import type { MachineReading } from "./machine-reading.ts";

export interface LocalReading {
  readonly machine: MachineReading;
  /** `20.19.0`. */
  readonly node: string;
  /** Why no Python can serve, with the command that helps; null where one can. */
  readonly pythonProblem: string | null;
  /** Whether the stack runs: its ports are then its own. */
  readonly isUp: boolean;
  /** Where downloads and what is built of them are kept. */
  readonly cache: string;
  /** Where the stack is kept. */
  readonly project: string;
}

/** `engines` of package.json. */
const NODE = { least: "20.19.0", first: "25" } as const;

/** What the wheels of requirements.lock were built for. */
const LEAST_GLIBC = "2.35";

/** Encoders and one small language model, measured: see docs/measurements.md. */
const MEMORY_MIB = 3 * 1024;

/** Downloads and artifacts, and the stack's Python with its packages; `du` of a stack of its own. */
const CACHE_GB = 0.8;
const STACK_GB = 1.5;

export function localFindings(plan: LocalPlan, reading: LocalReading): readonly Finding[] {
  const { machine, node, pythonProblem, isUp, cache, project } = reading;
  const found: (Finding | false)[] = [
    (machine.system !== "Linux" || !["x86_64", "aarch64"].includes(machine.architecture)) && {
      severity: "problem",
      check: "machine",
      what: `This machine is ${machine.system} on ${machine.architecture}.`,
      why: "Triton's wheel is made for Linux on x86_64 and aarch64.",
      fix: "Use such a machine, or `platform: docker` with one behind ssh.",
    },
    machine.system === "Linux" &&
      (machine.glibc === null || isOlder(machine.glibc, LEAST_GLIBC)) && {
        severity: "problem",
        check: "glibc",
        what: `The C library is ${machine.glibc === null ? "no glibc" : `glibc ${machine.glibc}`}.`,
        why: `Triton's wheel needs glibc ${LEAST_GLIBC}.`,
        fix: "Use Debian 12, Ubuntu 22.04 or anything newer.",
      },
    (isOlder(node, NODE.least) || !isOlder(node, NODE.first)) && {
      severity: "problem",
      check: "node",
      what: `This is Node ${node}.`,
      why: `The project runs on ${NODE.least} and newer, below ${NODE.first}.`,
      fix: "Install Node 22 or 24 (https://nodejs.org).",
    },
    pythonProblem !== null && {
      severity: "problem",
      check: "python",
      what: "No Python of this machine can serve.",
      why: pythonProblem,
      fix: "Run that command, or `npm start -- --yes` as root.",
    },
    !isUp &&
      machine.availableMiB !== null &&
      machine.availableMiB < MEMORY_MIB && {
        severity: "problem",
        check: "memory",
        what: `${machine.availableMiB} MiB of memory are free.`,
        why: `The stack takes about ${MEMORY_MIB} MiB.`,
        fix: "End other programs, or use a machine with more memory.",
      },
  ];
  const disk = isUp
    ? []
    : diskFindings(
        [
          { what: "downloads", gb: CACHE_GB, path: cache },
          { what: "the stack", gb: STACK_GB, path: project },
        ],
        (path) => machine.space.get(path ?? project),
      );
  return [...found.filter((one) => one !== false), ...(isUp ? [] : portFindings(plan, machine)), ...disk];
}

function portFindings(plan: LocalPlan, { listening }: MachineReading): readonly Finding[] {
  return chosenPorts(plan)
    .filter(([, port]) => listening.has(port))
    .map(([path, port]) => ({
      severity: "problem",
      check: "ports",
      what: `Port ${port} is in use.`,
      why: `${path} of the stack file asks for it.`,
      fix: "End who listens there (`ss -ltnp`), or leave the key out: then a free one is taken.",
    }));
}

/** Those that the stack file sets, with their paths: 0 takes a free one. */
function chosenPorts({ gateway, encoders, models, databases }: LocalPlan): [string, number][] {
  const below = (path: string, ports: object): [string, number][] =>
    Object.entries(ports).map(([name, port]) => [`${path}.${name}`, port as number]);
  const all: [string, number][] = [
    ["gateway.port", gateway.port],
    ...below("encoders.ports", encoders.ports),
    ...models.flatMap(({ ports }, index) => below(`models[${index}].ports`, ports)),
    ...(databases.kind === "mock" ? below("databasePorts", databases.ports) : []),
  ];
  return all.filter(([, port]) => port > 0);
}
