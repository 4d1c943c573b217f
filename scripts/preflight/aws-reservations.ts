/** Reserved machines that pools name, against what AWS holds. Pure. */
import { STACK_TAG } from "../../infra/plan/aws/context.ts";
import type { ReservationReading } from "../aws/capacity.ts";
import type { RunningMachine } from "../aws/ec2.ts";
import type { Answer } from "../aws/session.ts";
import type { AwsTarget } from "../program/aws-target.ts";
import type { MachineNeed } from "./aws-quotas.ts";
import { unanswered } from "./aws-words.ts";
import { poolZones } from "./aws-zones.ts";
import { type Finding, problem, warning } from "./finding.ts";

/** By the reservation's id. */
export type Reservations = ReadonlyMap<string, Answer<ReservationReading>>;

/** Ids that pools name, each once. */
export function reservationIds({ plan }: AwsTarget): readonly string[] {
  return [
    ...new Set(
      plan.spec.pools.flatMap(({ capacityReservationId }) =>
        capacityReservationId === undefined ? [] : [capacityReservationId],
      ),
    ),
  ];
}

interface NamedReservation {
  readonly id: string;
  readonly need: MachineNeed;
}

export function reservationFindings(
  target: AwsTarget,
  needs: readonly MachineNeed[],
  { reservations, running }: { reservations: Reservations; running: Answer<readonly RunningMachine[]> },
): readonly Finding[] {
  return target.plan.spec.pools.flatMap(({ name, capacityReservationId: id }) => {
    const need = needs.find(({ pool }) => pool === name);
    const answer = id === undefined ? undefined : reservations.get(id);
    if (id === undefined || need === undefined || answer === undefined) return [];
    const path = `\`capacityReservationId\` of the pool ${name}`;
    if (answer.kind === "absent")
      return [
        problem(
          "reservations",
          `There is no capacity reservation ${id}.`,
          `The account has none of that id in ${target.context.region}.`,
          `Correct ${path}, or leave it out.`,
        ),
      ];
    if (answer.kind !== "answer")
      return unanswered("reservations", answer, `nobody knows what ${id} holds for the pool ${name}`);
    const named = { id, need };
    const unusable = unusableFindings(target, named, answer.value);
    return unusable.length > 0 ? unusable : roomFindings(target, named, answer.value, running);
  });
}

function unusableFindings(
  target: AwsTarget,
  { id, need: { pool, instanceType } }: NamedReservation,
  { isCapacityBlock, state, zone, ...held }: ReservationReading,
): readonly Finding[] {
  const path = `\`capacityReservationId\` of the pool ${pool}`;
  if (isCapacityBlock)
    return [
      problem(
        "reservations",
        `The capacity reservation ${id} is a Capacity Block.`,
        "Machines of a Capacity Block are started as a kind of their own, for days and with an end, and this project starts on-demand and spot machines alone.",
        `Take an on-demand capacity reservation, or leave out ${path}.`,
      ),
    ];
  if (state !== "active")
    return [
      problem(
        "reservations",
        `The capacity reservation ${id} is not active.`,
        `AWS says that it is ${state}, and no machine starts in it.`,
        `Correct ${path}, or leave it out.`,
      ),
    ];
  if (held.instanceType !== instanceType)
    return [
      problem(
        "reservations",
        `The capacity reservation ${id} holds no ${instanceType}.`,
        `It holds ${held.instanceType}, and the pool ${pool} wants ${instanceType}.`,
        `Correct ${path}, or its instanceType.`,
      ),
    ];
  const wanted = poolZones(target, pool);
  if (wanted.some((one) => `${target.context.region}${one}` === zone)) return [];
  return [
    problem(
      "reservations",
      `The capacity reservation ${id} is in another zone than the pool ${pool}.`,
      `It is in ${zone}, and the pool's machines are started in ${wanted.join(", ")}.`,
      target.plan.compute === "eks"
        ? `Write \`zones: [${zone.slice(target.context.region.length)}]\` for the pool.`
        : `Write \`zone: ${zone.slice(target.context.region.length)}\` for the pool.`,
    ),
  ];
}

/** The stack's own machines of the type may be those that use it. */
function roomFindings(
  { context }: AwsTarget,
  { id, need: { pool, instanceType, plannedMachines, maxMachines } }: NamedReservation,
  { machines, freeMachines }: ReservationReading,
  running: Answer<readonly RunningMachine[]>,
): readonly Finding[] {
  const all = running.kind === "answer" ? running.value : [];
  const own = all.filter(({ type, tags }) => type === instanceType && tags.get(STACK_TAG) === context.stack);
  const room = Math.min(machines, freeMachines + own.length);
  if (room >= maxMachines) return [];
  return [
    // With fewer than `up` waits for it fails; with fewer than the most, the pool can't grow to what the stack file says.
    (room < plannedMachines ? problem : warning)(
      "reservations",
      `The capacity reservation ${id} has room for ${room} of ${maxMachines} machines of the pool ${pool}.`,
      `It holds ${machines}, of which ${freeMachines} are free; no other machine is started for a pool that names it.${room < plannedMachines ? ` \`npx engine-room up\` waits for ${plannedMachines}.` : ""}`,
      "Enlarge the reservation (aws ec2 modify-capacity-reservation), or write fewer `nodes.max`.",
    ),
  ];
}
