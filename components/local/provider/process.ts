/** `local:index:Process`: a program that supervisord keeps running, ready when its URL answers. */
import type { ProcessInputs, ProcessOutputs } from "../types.ts";
import {
  type HandlerContext,
  InitializationError,
  type PropertyMap,
  type ResourceHandler,
} from "./contract.ts";
import { exclusively } from "./exclusive.ts";
import { fromRoot } from "./files.ts";
import { fileBytes, tailLines, tellingLines } from "./log-tail.ts";
import { endOrphans } from "./orphans.ts";
import { fillPlaceholders } from "./placeholders.ts";
import { assertFree, choosePorts } from "./ports.ts";
import { checkProcess, processShape } from "./process-inputs.ts";
import {
  claimedPorts,
  type Ports,
  type ProcessRecord,
  readRecord,
  recordDigest,
  writeProcess,
} from "./process-record.ts";
import { removeProcess } from "./process-removal.ts";
import { waitUntilReady } from "./readiness.ts";
import { type SupervisorClient, withSupervisor } from "./supervisor-client.ts";
import { logFile } from "./supervisor-layout.ts";
import { diffProperties, pickInputs } from "./validation.ts";

const SEARCHED_LOG_LINES = 400;
const QUOTED_LOG_LINES = 8;

export const processHandler: ResourceHandler = {
  check: checkProcess,

  async diff(_id, olds, news) {
    return diffProperties(Object.keys(processShape), olds, news, {
      replaceOn: ["stackDirectory", "name"],
      // Old and new may ask for the same port.
      deleteBeforeReplace: true,
    });
  },

  async create(_name, inputs, context) {
    const wanted = asInputs(inputs);
    const outs = await bringUp(wanted, {}, context);
    return { id: idOf(wanted), outs };
  },

  async read(id, state) {
    const inputs = asInputs(state);
    const { ports } = state as unknown as ProcessOutputs;
    const record = await readRecord(inputs.stackDirectory, inputs.name);
    if (record === undefined || record.digest !== recordDigest(inputs, ports)) return undefined;
    const runs = await withSupervisor(inputs.stackDirectory, inputs.python, async (supervisor) => {
      const info = (await supervisor?.states())?.programs.find((program) => program.name === inputs.name);
      // Between two tries supervisord is at work on it; FATAL is where it has given up.
      return info !== undefined && ["RUNNING", "STARTING", "BACKOFF"].includes(info.statename);
    });
    return runs ? { id, inputs: { ...inputs, ports }, outs: { ...inputs, ports } } : undefined;
  },

  async update(_id, olds, news, context) {
    const { ports } = olds as unknown as Partial<ProcessOutputs>;
    return { outs: await bringUp(asInputs(news), ports ?? {}, context) };
  },

  async delete(_id, state) {
    const inputs = asInputs(state);
    await exclusively(idOf(inputs), () => removeProcess(inputs));
  },
};

/** Starts the process anew, whatever of it is there, and waits until it is ready. */
async function bringUp(
  wanted: ProcessInputs,
  oldPorts: Ports,
  context: HandlerContext,
): Promise<PropertyMap> {
  const { stackDirectory, name, python } = wanted;
  return exclusively(idOf(wanted), () =>
    withSupervisor(stackDirectory, python, async (supervisor) => {
      if (supervisor === undefined)
        throw new Error(
          `${name}: ${python} does not exist, so nothing can keep the process running; make it first.`,
        );
      const record = await readRecord(stackDirectory, name);
      await assertNewPortsFree(wanted, record);
      await supervisor.stop(name);
      const log = fromRoot(logFile(stackDirectory, name));
      const logStartBytes = await fileBytes(log);
      const ports = await start(wanted, record?.ports ?? oldPorts, supervisor, context);
      const outs = { ...wanted, ports };
      const url = fillPlaceholders(wanted.ready.url, { ports, root: fromRoot() });
      try {
        await waitUntilReady({ ...wanted.ready, stackDirectory, name, url }, supervisor, context);
      } catch (error) {
        // It stays configured, with its log, for whoever looks into it; it does not go on failing.
        await supervisor.stop(name);
        const lines = tellingLines(await tailLines(log, SEARCHED_LOG_LINES, logStartBytes), QUOTED_LOG_LINES);
        throw new InitializationError(failureText(error, wanted, lines), idOf(wanted), outs);
      }
      return outs;
    }),
  );
}

/** Before a running process is stopped: ports that it does not have yet must be there for it. */
async function assertNewPortsFree(wanted: ProcessInputs, record: ProcessRecord | undefined): Promise<void> {
  const held = Object.values(record?.ports ?? {});
  for (const [portName, port] of Object.entries(wanted.requestedPorts))
    if (port !== 0 && !held.includes(port)) await assertFree(wanted.name, portName, port, new Map());
}

/** Chooses ports and starts; one process of the project at a time, so that each sees the ports of those before it. */
async function start(
  wanted: ProcessInputs,
  previous: Ports,
  supervisor: SupervisorClient,
  context: HandlerContext,
): Promise<Ports> {
  const { stackDirectory, name } = wanted;
  return exclusively("start", async () => {
    const { pid } = await supervisor.states();
    // A supervisord that starts will start all that it knows: nothing of the stack may run then.
    const names = pid === null ? {} : { names: [name] };
    const ended = await endOrphans({ stackDirectory, supervisorPid: pid, ...names });
    if (ended > 0) context.report(`ended ${ended} process(es) that an earlier supervisord had left`);
    // A supervisord that was started since, for another process, has started this one again with its old ports.
    if (pid !== null) await supervisor.stop(name);
    const claimed = await claimedPorts(stackDirectory, name);
    const ports = await choosePorts({
      stackDirectory,
      name,
      requested: wanted.requestedPorts,
      previous,
      claimed,
    });
    await writeProcess(wanted, ports);
    await supervisor.apply(name);
    return ports;
  });
}

function failureText(error: unknown, wanted: ProcessInputs, lines: readonly string[]): string {
  const log = logFile(wanted.stackDirectory, wanted.name);
  const reason = error instanceof Error ? error.message : String(error);
  return lines.length === 0
    ? `${reason}; its log ${log} is empty.`
    : `${reason}; its log ${log} says:\n${lines.join("\n")}`;
}

function idOf(inputs: Pick<ProcessInputs, "stackDirectory" | "name">): string {
  return `${inputs.stackDirectory}/${inputs.name}`;
}

function asInputs(state: PropertyMap): ProcessInputs {
  return pickInputs(processShape, state) as unknown as ProcessInputs;
}
