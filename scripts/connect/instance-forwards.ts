/** Which ports of a stack's machine on EC2 are brought to this one, and by which sessions. */
import type { Endpoints } from "../../infra/plan/endpoints.ts";
import { portSession, requireMachine } from "../aws/machine.ts";
import { lastLine } from "../preflight/host-probe.ts";
import type { InstanceTarget } from "../program/targets.ts";
import { type ConnectedPart, wantedEndpoints } from "./cluster-forwards.ts";
import { type Forward, forwards, portClaims } from "./forwards.ts";
import type { ForwardCommand, ForwardFailure } from "./port-forwarder.ts";

export const instanceFailure: ForwardFailure = (endpoint, { stderr }) =>
  `The endpoint ${endpoint} can't be forwarded: ${lastLine(stderr)}\n\`npx engine-room status\` says whether the machine runs; your credentials must be allowed ssm:StartSession on it.`;

/** Addresses are the machine's own: a port of its 127.0.0.1 each. */
export function instanceForwards(
  { stack }: InstanceTarget,
  parts: readonly ConnectedPart[],
): Promise<readonly Forward[]> {
  const own = wantedEndpoints(stack.endpoints, new Set(parts));
  return forwards(
    own.filter(({ address }) => /^([a-z]+:\/\/)?127\.0\.0\.1:/.test(address)),
    portClaims(),
  );
}

/** A session each: one carries one port. @throws UserError where the machine does not run, or sessions can't be opened. */
export async function instanceCommands(
  { context }: InstanceTarget,
  all: readonly Forward[],
): Promise<readonly ForwardCommand[]> {
  const id = await requireMachine(context);
  return all.map((forward) => ({
    service: forward.name,
    ports: 1,
    argv: portSession(context.region, id, forward),
  }));
}

/** Endpoints as they are reached from here; those that are not forwarded stay what they are. */
export function localInstanceEndpoints(endpoints: Endpoints, all: readonly Forward[]): Endpoints {
  const ports = new Map(all.map(({ port, localPort }) => [String(port), localPort]));
  const replaced = (value: unknown): unknown => {
    if (typeof value === "string")
      return value.replace(/(127\.0\.0\.1:)(\d+)/, (address, host: string, port: string) => {
        const local = ports.get(port);
        return local === undefined ? address : `${host}${local}`;
      });
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, replaced(inner)]));
  };
  return replaced(endpoints) as Endpoints;
}
