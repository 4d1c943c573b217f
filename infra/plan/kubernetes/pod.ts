/** What the pods of a stack have in common. */
import { TRITON_PORTS } from "../repository/launch.ts";
import { hashedFiles, objectLabels, podSelector } from "./labels.ts";
import { CONFIG_DIRECTORY, type PodPlan, type PodProbes, type PodVolume, type Probe } from "./pod-types.ts";
import type { ServicePlan } from "./types.ts";

/** What a pod must say of itself. */
type RequiredOptions = Pick<PodPlan, "role" | "image" | "resources" | "placement" | "graceSeconds">;

interface PodOptions
  extends RequiredOptions,
    Partial<Omit<PodPlan, "labels" | "selector" | "config" | keyof RequiredOptions>> {
  /** Content address of what it makes or serves; null: of nothing. */
  readonly key?: string | null;
  /** By absolute path below {@link CONFIG_DIRECTORY}. */
  readonly files?: Readonly<Record<string, string>>;
}

/** `node` of Node's images, and of every image of this project. */
export const USER_ID = 1000;

/** `/tmp` of a container that can write nowhere else: sockets and the like. */
export const SCRATCH_TMP: PodVolume = {
  name: "tmp",
  path: "/tmp",
  readOnly: false,
  source: { kind: "disk", sizeMiB: 1024 },
};

/** How long a server answers on after it was taken out of its Service: until the last proxy has forgotten its address. */
export const PRE_STOP_SECONDS = 10;

/** A pod of a stack. @param subject - What its ConfigMap is named after. */
export function pod(stack: string, subject: string, { key, files = {}, ...options }: PodOptions): PodPlan {
  const { role, model = null } = options;
  const labels = objectLabels(stack, { role, model, key: key ?? null });
  const data = Object.fromEntries(
    Object.entries(files).map(([path, text]) => [path.slice(CONFIG_DIRECTORY.length + 1), text]),
  );
  return {
    model: null,
    command: null,
    args: [],
    environment: {},
    secretFiles: {},
    volumes: [SCRATCH_TMP],
    ports: {},
    priorityClass: null,
    userId: USER_ID,
    probes: null,
    preStopSeconds: 0,
    ...options,
    labels,
    selector: podSelector(stack, { role, model }),
    config: Object.keys(data).length === 0 ? null : hashedFiles(subject, labels, data),
  };
}

/** Ports of every Triton. */
export const TRITON_POD_PORTS = { ...TRITON_PORTS } as const;

/** A check that takes long is a server that hangs; three in a row are no accident. */
const PERIOD_SECONDS = 10;
const TIMEOUT_SECONDS = 5;
const FAILURES = 3;
/** A busy server may be late for a minute before it is taken for dead. */
const LIVENESS_FAILURES = 6;

/** @param start - How long a start may take, in seconds. */
export function probes(start: number, ready: Probe["check"], alive: Probe["check"] | null = null): PodProbes {
  const probe = (check: Probe["check"], failureThreshold: number): Probe => ({
    check,
    periodSeconds: PERIOD_SECONDS,
    timeoutSeconds: TIMEOUT_SECONDS,
    failureThreshold,
  });
  return {
    startup: probe(ready, Math.ceil(start / PERIOD_SECONDS)),
    readiness: probe(ready, FAILURES),
    liveness: alive === null ? null : probe(alive, LIVENESS_FAILURES),
  };
}

/** Ready when all models are; alive as long as Triton answers at all. */
export function tritonProbes(start: number): PodProbes {
  const check = (path: string) => ({ kind: "http" as const, path, port: TRITON_PORTS.http });
  return probes(start, check("/v2/health/ready"), check("/v2/health/live"));
}

/** The Service in front of a pod, which has its ports. */
export function service(name: string, { labels, selector, ports }: PodPlan, isHeadless = false): ServicePlan {
  const { "engine-room/key": _, ...kept } = labels;
  return { name, labels: kept, selector, ports, isHeadless };
}

/** Address of a Triton for other pods of the namespace. */
export function tritonAddress(name: string): string {
  return `http://${name}:${TRITON_PORTS.http}`;
}
