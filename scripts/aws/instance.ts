/** The one machine of a stack on EC2, and the sessions of Systems Manager that are the only way to it. */
import type { AwsContext } from "../../infra/plan/aws/context.ts";
import { UserError } from "../errors.ts";
import { programFindings } from "../preflight/aws-programs.ts";
import { type RunningMachine, stackMachines } from "./ec2.ts";
import { required } from "./session.ts";

/** Of what is not on its way to be gone for good. */
const STATES = ["pending", "running", "stopping", "stopped"];

/** null: there is none. @throws UserError where AWS does not say. */
export async function stackInstance({ region, stack }: AwsContext): Promise<RunningMachine | null> {
  const found = required(await stackMachines(region, stack, STATES), `${region} has no machines.`);
  // A replaced one may still stop while its successor runs.
  return found.find(({ state }) => state === "running") ?? found[0] ?? null;
}

/** The machine's id. @throws UserError where it does not run, or this machine can't open sessions. */
export async function requireInstance(context: AwsContext): Promise<string> {
  const { region, stack } = context;
  const [missing] = await programFindings("ec2");
  if (missing !== undefined) throw new UserError(`${missing.what} ${missing.why} ${missing.fix}`);
  const machine = await stackInstance(context);
  if (machine === null)
    throw new UserError(
      `The stack ${stack} has no machine in ${region} that your credentials see; \`npx engine-room up --stack ${stack}\` makes it.`,
    );
  if (machine.state !== "running")
    throw new UserError(
      `The machine ${machine.id} of ${stack} is ${machine.state}; \`npx engine-room wake --stack ${stack}\` starts it.`,
    );
  return machine.id;
}

/** Words of one session. https://docs.aws.amazon.com/cli/latest/reference/ssm/start-session.html */
function sessionCommand(
  region: string,
  instanceId: string,
  document: string,
  parameters: Readonly<Record<string, string>>,
): readonly [string, ...string[]] {
  const lists = Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, [value]]));
  return [
    "aws",
    ...["ssm", "start-session", "--region", region, "--target", instanceId],
    ...["--document-name", document, "--parameters", JSON.stringify(lists)],
  ];
}

/** Forwards one port of 127.0.0.1 to one of the machine's own. */
export function portSession(
  region: string,
  instanceId: string,
  { port, localPort }: { readonly port: number; readonly localPort: number },
): readonly string[] {
  return sessionCommand(region, instanceId, "AWS-StartPortForwardingSession", {
    portNumber: String(port),
    localPortNumber: String(localPort),
  });
}

/** Runs one command in a terminal on the machine. Its user may become root. */
export function terminalSession(
  region: string,
  instanceId: string,
  command: string,
): readonly [string, ...string[]] {
  return sessionCommand(region, instanceId, "AWS-StartInteractiveCommand", { command });
}
