/** What a Process may be given. */
import { z } from "zod";
import type { ProcessInputs } from "../types.ts";
import type { CheckFailure, CheckResult, PropertyMap } from "./contract.ts";
import { SUPERVISORD } from "./orphans.ts";
import { portsIn } from "./placeholders.ts";
import { assertFree, choosePorts } from "./ports.ts";
import { claimedPorts, type Ports, readRecord } from "./process-record.ts";
import { checkProperties, hasUnknown, projectPath, propertyPath, stackPath } from "./validation.ts";

// The kernel passes arguments and variables as strings that end with a zero byte.
const passable = z.string().refine((text) => !text.includes("\0"), "must not hold a zero byte");
const portName = z.string().regex(/^[A-Za-z0-9_-]{1,40}$/, "must be made of letters, digits, _ and -");

export const processShape = {
  stackDirectory: stackPath,
  name: z
    .string()
    .regex(/^[a-z0-9][a-z0-9-]{0,62}$/, "must be made of lower-case letters, digits and -, 63 at most")
    .refine((name) => name !== SUPERVISORD, `must not be ${SUPERVISORD}`),
  python: projectPath,
  command: z
    .array(passable)
    .min(1, "must name a program")
    .refine((command) => command[0] !== "", "must name a program"),
  environment: z
    .record(z.string().regex(/^[A-Za-z_]\w*$/, "must be a variable's name: letters, digits and _"), passable)
    .default({}),
  requestedPorts: z.record(portName, z.int().min(0).max(65_535)),
  files: z
    .record(z.string().regex(/^(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}$/, "must be a plain file name"), z.string())
    .default({}),
  triggers: z.array(z.string()).default([]),
  ready: z.strictObject({
    url: z.string().regex(/^http:\/\/(127\.0\.0\.1|localhost):(\d+|\{port\.[A-Za-z0-9_-]+\})(\/|$)/, {
      error: (issue) =>
        `${JSON.stringify(issue.input)} must be a URL of this machine, as in http://127.0.0.1:{port.http}/healthz`,
    }),
    timeoutSeconds: z.number().positive().max(86_400),
  }),
  stopTimeoutSeconds: z.int().min(1).max(3600).default(10),
  priority: z.int().min(1).max(999).default(500),
  maxLogMiB: z.int().min(1).max(10_240).default(10),
  logBackups: z.int().min(0).max(100).default(3),
};

/**
 * Besides what is wrong, it fills in `ports`. Of a resource's outputs, a preview knows those that are inputs too: so an
 * update of this process leaves what depends on its ports as it is.
 */
export async function checkProcess(inputs: PropertyMap, olds: PropertyMap = {}): Promise<CheckResult> {
  const checked = checkProperties(processShape, inputs);
  const identity = [checked.inputs.stackDirectory, checked.inputs.name, checked.inputs.requestedPorts];
  if (checked.failures.length > 0 || hasUnknown(identity)) return checked;
  const wanted = checked.inputs as unknown as ProcessInputs;
  const withPorts = { ...checked.inputs, ports: await plannedPorts(wanted, olds.ports) };
  const wrong = hasUnknown(checked.inputs) ? [] : portFailures(wanted);
  return { inputs: withPorts, failures: [...wrong, ...(await takenPorts(wanted))] };
}

/** Ports that were asked for and that somebody else has: known before anything is touched. */
async function takenPorts({ stackDirectory, name, requestedPorts }: ProcessInputs): Promise<CheckFailure[]> {
  const own = Object.values((await readRecord(stackDirectory, name))?.ports ?? {});
  const claimed = await claimedPorts(stackDirectory, name);
  const failures: CheckFailure[] = [];
  for (const [portName, port] of Object.entries(requestedPorts)) {
    if (port === 0 || own.includes(port)) continue;
    await assertFree(name, portName, port, claimed).catch((error: Error) => {
      failures.push({ property: propertyPath(["requestedPorts", portName]), reason: error.message });
    });
  }
  return failures;
}

/** Ports as they will be: those asked for, those that the process has or had, and those it will most likely get. */
async function plannedPorts(inputs: ProcessInputs, previous: unknown): Promise<Ports> {
  const { stackDirectory, name, requestedPorts } = inputs;
  const record = await readRecord(stackDirectory, name);
  const known = { ...(previous as Ports | undefined), ...record?.ports };
  const settled = Object.entries(requestedPorts).map(([key, port]) => [key, port === 0 ? known[key] : port]);
  const open = settled.filter(([, port]) => port === undefined).map(([key]) => [key, 0]);
  const chosen = await choosePorts({
    stackDirectory,
    name,
    requested: Object.fromEntries(open),
    previous: {},
    claimed: await claimedPorts(stackDirectory, name),
  });
  return { ...Object.fromEntries(settled.filter(([, port]) => port !== undefined)), ...chosen };
}

function portFailures(inputs: ProcessInputs): CheckFailure[] {
  const { requestedPorts } = inputs;
  const texts: (readonly [readonly PropertyKey[], string])[] = [
    ...inputs.command.map((text, index) => [["command", index], text] as const),
    ...Object.entries(inputs.environment).map(([key, text]) => [["environment", key], text] as const),
    [["ready", "url"], inputs.ready.url],
  ];
  const known = Object.keys(requestedPorts).join(", ") || "none";
  const unknown = texts.flatMap(([path, text]) =>
    portsIn(text)
      .filter((name) => requestedPorts[name] === undefined)
      .map((name) => ({
        property: propertyPath(path),
        reason: `{port.${name}} is no port of requestedPorts, which has ${known}.`,
      })),
  );
  const entries = Object.entries(requestedPorts);
  const twice = entries.flatMap(([name, port], index) => {
    const first = entries.slice(0, index).find(([, other]) => other === port && port !== 0);
    if (first === undefined) return [];
    return [
      {
        property: propertyPath(["requestedPorts", name]),
        reason: `Port ${port} is also that of ${first[0]}.`,
      },
    ];
  });
  return [...unknown, ...twice];
}
