/** `local:index:Process`: a program that supervisord keeps running, ready when its URL answers. */
import {
  type HandlerContext,
  hasUnknown,
  InitializationError,
  propertyPath,
  resourceHandler,
} from "./contract.ts";
import { exclusively, exists, fromRoot } from "./files.ts";
import { type Ports, type ProcessInputs, type ProcessOutputs, processInputs, SUPERVISORD } from "./inputs.ts";
import { choosePorts } from "./ports.ts";
import {
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
import {
  endOrphans,
  programs,
  shutDownSupervisor,
  startProgram,
  startSupervisor,
  stopProgram,
} from "./supervisor.ts";

export const processHandler = resourceHandler<ProcessInputs, ProcessOutputs>({
  schema: processInputs,
  replaceOn: ["stackDirectory", "name"],
  // Old and new may ask for the same port.
  deleteBeforeReplace: true,
  // A preview of an update of this process then shows no change of the resources that use its ports.
  planned: ["ports"],
  idOf,

  async examine(inputs, olds) {
    const { stackDirectory, name, requestedPorts } = inputs;
    if (hasUnknown([stackDirectory, name, requestedPorts])) return { failures: [] };
    const wanted = inputs as unknown as ProcessInputs;
    const record = await readRecord(wanted.stackDirectory, wanted.name);
    const previous = { ...(olds.ports as Ports | undefined), ...record?.ports };
    const { ports, taken } = await choosePorts(wanted, previous, { running: true });
    const failures = Object.entries(taken).map(([portName, reason]) => ({
      property: propertyPath(["requestedPorts", portName]),
      reason,
    }));
    const known = Object.keys(ports).join(", ") || "none";
    for (const property of ["command", "environment", "ready"] as const)
      for (const port of portsIn(JSON.stringify(wanted[property])))
        if (ports[port] === undefined)
          failures.push({
            property,
            reason: `{port.${port}} is no port of requestedPorts, which has ${known}.`,
          });
    return { planned: { ports }, failures };
  },

  /** Stops the process where it runs, starts it and waits until it is ready. */
  async bring(wanted, { ports: oldPorts = {} }, context) {
    const { stackDirectory, name, python } = wanted;
    if (!(await exists(fromRoot(python))))
      throw new Error(
        `${name}: ${python} does not exist, so nothing can keep the process running; make it first.`,
      );
    const previous = (await readRecord(stackDirectory, name))?.ports ?? oldPorts;
    // Before the running process is stopped.
    throwIfTaken(await choosePorts(wanted, previous, { running: true }));
    await stopProgram(wanted);
    const logStartBytes = await fileBytes(fromRoot(logFile(stackDirectory, name)));
    const ports = await start(wanted, previous, context);
    const outs = { ...wanted, ports };
    try {
      await waitUntilReady(wanted, ports, context);
    } catch (error) {
      // Its log and configuration stay; supervisord does not try again.
      await stopProgram(wanted);
      const reason = error instanceof Error ? error.message : String(error);
      throw new InitializationError(await withLog(reason, wanted, logStartBytes), idOf(wanted), outs);
    }
    return outs;
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
    const answers = await stopProgram(inputs);
    await exclusively("start", async () => {
      // A supervisord that does not answer would start the process again: it is itself left behind.
      await endOrphans(stackDirectory, answers ? [name] : [name, SUPERVISORD]);
      await removeProcessFiles(stackDirectory, name);
      if ((await recordedNames(stackDirectory)).length > 0) return;
      await shutDownSupervisor(stackDirectory);
      await endOrphans(stackDirectory, [SUPERVISORD]);
      await removeSupervisorFiles(stackDirectory);
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
    // A supervisord that was started since, for another process, has started this one again with its old ports.
    const runs = await stopProgram(wanted);
    // One that starts will start all that it knows: nothing of the stack may run then.
    const ended = await endOrphans(stackDirectory, runs ? [name] : undefined);
    if (ended > 0) context.report(`ended ${ended} process(es) that an earlier supervisord had left`);
    const ports = throwIfTaken(await choosePorts(wanted, previous, { running: false }));
    await writeProcess(wanted, ports);
    await (runs ? startProgram(stackDirectory, name) : startSupervisor(stackDirectory, python));
    return ports;
  });
}

function throwIfTaken({ ports, taken }: Awaited<ReturnType<typeof choosePorts>>): Ports {
  const [reason] = Object.values(taken);
  if (reason !== undefined) throw new Error(reason);
  return ports;
}
