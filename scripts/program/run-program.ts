/** Runs the Pulumi program in this process, on this project's monitor instead of an engine. */
import * as pulumi from "@pulumi/pulumi";
import * as settings from "@pulumi/pulumi/runtime/settings.js";
import { type MonitorOwner, ProgramMonitor } from "./monitor.ts";
import { projectName, type RuntimeConfig } from "./stack-file.ts";

interface ProgramRun {
  /** Name of the stack. */
  readonly stack: string;
  readonly config: RuntimeConfig;
  /** Whether outputs that only an `up` can know are unknown. */
  readonly preview: boolean;
  readonly owner: MonitorOwner;
  /** Evaluates the program and gives its exports. @default imports infra/index.ts of the project */
  readonly program?: () => Promise<object>;
}

/**
 * Evaluates the program and waits until every resource it registered is answered. A module is evaluated once a process,
 * so the project's own program can be run once a process.
 *
 * @throws The program's error, or the owner's answer to a registration.
 */
export async function runProgram(run: ProgramRun): Promise<void> {
  const project = projectName();
  const unreachable = () => Promise.reject(new Error("The monitor answers every request."));
  // setMocks is the SDK's only public way to run without an engine; it also sets the monitor's supported features.
  await pulumi.runtime.setMocks(
    { newResource: unreachable, call: unreachable },
    project,
    run.stack,
    run.preview,
  );
  const monitor = new ProgramMonitor(project, run.stack, run.owner);
  settings.setMockOptions(monitor, project, run.stack, run.preview);
  pulumi.runtime.setAllConfig({ ...run.config.values }, [...run.config.secretKeys]);

  const program = run.program ?? (() => import("../../infra/index.ts"));
  // A platform may run without stack traces, which its caller here may need.
  const { stackTraceLimit } = Error;
  try {
    await orFirstFailure(monitor, async () => {
      await pulumi.runtime.runInPulumiStack(async () => ({ ...(await program()) }));
      await settings.disconnect();
    });
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/**
 * A failed registration leaves outputs that never settle, and rejections all over the program. The first rejection ends
 * the run, but only after running work has ended; the monitor's own error is better than the SDK's.
 */
async function orFirstFailure(monitor: ProgramMonitor, work: () => Promise<void>): Promise<void> {
  let reject: (error: unknown) => void = () => {};
  const failed = new Promise<never>((_resolve, rejected) => {
    reject = rejected;
  });
  // A rejection that the SDK handles late is not reported either.
  const ignore = () => {};
  process.on("unhandledRejection", reject).on("rejectionHandled", ignore);
  try {
    await Promise.race([work(), failed]);
  } catch (error) {
    monitor.fail(error as Error);
    await monitor.settled();
  } finally {
    // Rejections that follow from the first rejection arrive over the next turns of the event loop.
    await new Promise((resolve) => setTimeout(resolve, 20));
    process.off("unhandledRejection", reject).off("rejectionHandled", ignore);
  }
  // The last registration that failed may be rejected only after the program has ended.
  if (monitor.failure !== undefined) throw monitor.failure;
}
