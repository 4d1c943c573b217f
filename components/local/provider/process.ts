/** `local:index:Process`: a program that supervisord keeps running, ready when its URL answers. */
import {
  type CheckFailure,
  type HandlerContext,
  InitializationError,
  propertyPath,
  resourceHandler,
} from "./contract.ts";
import { exclusively, exists, fromRoot } from "./files.ts";
import { type Ports, type ProcessInputs, type ProcessOutputs, processInputs, SUPERVISORD } from "./inputs.ts";
import { endOrphans } from "./orphans.ts";
import { assertFree, choosePorts } from "./ports.ts";
import {
  claimedPorts,
  logFile,
  portsIn,
  readRecord,
  recordDigest,
  recordedNames,
  removeProcessFiles,
  removeSupervisorFiles,
  writeProcess,
} from "./process-files.ts";
import { fileBytes, waitUntilReady, withLog } from "./readiness.ts";
import { programs, startProgram, startSupervisor, stopProgram, supervisorInterpreter } from "./supervisor.ts";
import { hasUnknown } from "./wire.ts";

export const processHandler = resourceHandler<ProcessInputs, ProcessOutputs>({
  schema: processInputs,
  replaceOn: ["stackDirectory", "name"],
  // Old and new may ask for the same port.
  deleteBeforeReplace: true,
  // An update of this process leaves what depends on its ports as it is.
  planned: ["ports"],
  idOf,

  async examine(inputs, olds) {
    if (hasUnknown([inputs.stackDirectory, inputs.name, inputs.requestedPorts]))
      return { inputs, failures: [] };
    const wanted = inputs as unknown as ProcessInputs;
    const ports = await plannedPorts(wanted, olds.ports as Ports | undefined);
    const failures = hasUnknown(inputs) ? [] : portFailures(wanted);
    return { inputs: { ...inputs, ports }, failures: [...failures, ...(await takenPorts(wanted))] };
  },

  /** Starts the process anew, whatever of it exists, and waits until it is ready. */
  async bring(wanted, { ports: oldPorts = {} }, context) {
    const { stackDirectory, name, python } = wanted;
    return exclusively(idOf(wanted), async () => {
      if (!(await exists(fromRoot(python))))
        throw new Error(
          `${name}: ${python} does not exist, so nothing can keep the process running; make it first.`,
        );
      const record = await readRecord(stackDirectory, name);
      const held = Object.values(record?.ports ?? {});
      // Before the running process is stopped.
      for (const [portName, port] of Object.entries(wanted.requestedPorts))
        if (port !== 0 && !held.includes(port)) await assertFree(name, portName, port, new Map());
      await stopProgram(stackDirectory, name);
      const logStartBytes = await fileBytes(fromRoot(logFile(stackDirectory, name)));
      const ports = await start(wanted, record?.ports ?? oldPorts, context);
      const outs = { ...wanted, ports };
      try {
        await waitUntilReady(wanted, ports, context);
      } catch (error) {
        // It stays configured, with its log, and does not go on failing.
        await stopProgram(stackDirectory, name);
        const reason = error instanceof Error ? error.message : String(error);
        throw new InitializationError(await withLog(reason, wanted, logStartBytes), idOf(wanted), outs);
      }
      return outs;
    });
  },

  async find(state) {
    const { ports, ...inputs } = state;
    const record = await readRecord(inputs.stackDirectory, inputs.name);
    if (record?.digest !== recordDigest(inputs, ports) || !(await exists(fromRoot(inputs.python))))
      return undefined;
    const info = (await programs(inputs.stackDirectory))?.find((program) => program.name === inputs.name);
    // BACKOFF: supervisord will start it again; in FATAL it has given up.
    return info !== undefined && ["RUNNING", "STARTING", "BACKOFF"].includes(info.statename)
      ? state
      : undefined;
  },

  /** The last process takes supervisord along. */
  async remove(inputs) {
    const { stackDirectory, name } = inputs;
    await exclusively(idOf(inputs), async () => {
      const answers = await stopProgram(stackDirectory, name);
      await exclusively("start", async () => {
        // A supervisord that does not answer would start the process again: it is itself left behind.
        await endOrphans(stackDirectory, answers ? [name] : [name, SUPERVISORD]);
        await removeProcessFiles(stackDirectory, name);
        if ((await recordedNames(stackDirectory)).length > 0) return;
        await endOrphans(stackDirectory, [SUPERVISORD]);
        await removeSupervisorFiles(stackDirectory);
      });
    });
  },
});

function idOf(inputs: Pick<ProcessInputs, "stackDirectory" | "name">): string {
  return `${inputs.stackDirectory}/${inputs.name}`;
}

/** Chooses ports and starts; one process of the project at a time, so that each sees the ports of those before it. */
async function start(wanted: ProcessInputs, previous: Ports, context: HandlerContext): Promise<Ports> {
  const { stackDirectory, name, python } = wanted;
  return exclusively("start", async () => {
    // A supervisord of another environment ends, as that environment is about to go.
    const runs = (await supervisorInterpreter(stackDirectory)) === fromRoot(python);
    // One that was started since, for another process, has started this one again with its old ports.
    if (runs) await stopProgram(stackDirectory, name);
    // One that starts will start all that it knows: nothing of the stack may run then.
    const ended = await endOrphans(stackDirectory, runs ? [name] : undefined);
    if (ended > 0) context.report(`ended ${ended} process(es) that an earlier supervisord had left`);
    const ports = await choosePorts(wanted, previous, await claimedPorts(stackDirectory, name));
    await writeProcess(wanted, ports);
    await (runs ? startProgram(stackDirectory, name) : startSupervisor(stackDirectory, python));
    return ports;
  });
}

/** Ports that were asked for and that another process has: known before anything is touched. */
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

/** Those asked for, those that the process has or had, and those that it will most likely get. */
async function plannedPorts(inputs: ProcessInputs, previous: Ports | undefined): Promise<Ports> {
  const { stackDirectory, name, requestedPorts } = inputs;
  const known = { ...previous, ...(await readRecord(stackDirectory, name))?.ports };
  const settled = Object.entries(requestedPorts).map(
    ([key, port]) => [key, port === 0 ? known[key] : port] as const,
  );
  const open = Object.fromEntries(settled.filter(([, port]) => port === undefined).map(([key]) => [key, 0]));
  const claimed = await claimedPorts(stackDirectory, name);
  const chosen = await choosePorts({ stackDirectory, name, requestedPorts: open }, {}, claimed);
  return {
    ...Object.fromEntries(settled.flatMap(([key, port]) => (port === undefined ? [] : [[key, port]]))),
    ...chosen,
  };
}

/** Placeholders of ports that are not requested, and ports that are requested twice. */
function portFailures({ command, environment, ready, requestedPorts }: ProcessInputs): CheckFailure[] {
  const texts: (readonly [readonly PropertyKey[], string])[] = [
    ...command.map((text, index) => [["command", index], text] as const),
    ...Object.entries(environment).map(([key, text]) => [["environment", key], text] as const),
    [["ready", "url"], ready.url],
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
    return first === undefined
      ? []
      : [
          {
            property: propertyPath(["requestedPorts", name]),
            reason: `Port ${port} is also that of ${first[0]}.`,
          },
        ];
  });
  return [...unknown, ...twice];
}
