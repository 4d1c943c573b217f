/** Zones of a stack: whether the region has them, offers the machines there, and EKS takes them. Pure. */

import { SYSTEM_POOL } from "../../infra/plan/aws/context.ts";
import { nodePoolPlans } from "../../infra/plan/aws/eks-cluster.ts";
import { instanceZone, machineZones } from "../../infra/plan/aws/network.ts";
import type { ZoneReading } from "../aws/capacity.ts";
import type { Offerings } from "../aws/ec2.ts";
import type { Answer } from "../aws/session.ts";
import type { AwsTarget } from "../program/aws-target.ts";
import type { MachineNeed } from "./aws-quotas.ts";
import { unanswered } from "./aws-words.ts";
import { type Finding, problem } from "./finding.ts";

/**
 * Where EKS makes no control planes, by ids that are the same in all accounts.
 * https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html#network-requirements-subnets
 */
const ZONES_WITHOUT_EKS = ["use1-az3", "usw1-az2", "cac1-az3"];

/** Letters of the zones that a pool's machines may be in; those of the pool for controllers are among them. */
export function poolZones({ plan }: AwsTarget, pool: string): readonly string[] {
  if (plan.compute === "ec2") return [instanceZone(plan.config)];
  const planned = nodePoolPlans(plan).find(({ name }) => name === pool);
  if (planned === undefined) throw new Error(`The cluster has no pool ${pool}.`);
  return planned.zones;
}

/** Where a stack file says which zones there are. */
function zonesKey({ plan }: AwsTarget): string {
  return plan.config.network.existing === undefined ? "`network.zones`" : "`network.existing.privateSubnets`";
}

/** Zones of the network that nothing can be made in. */
export function zoneFindings(target: AwsTarget, answer: Answer<readonly ZoneReading[]>): readonly Finding[] {
  const { plan, context } = target;
  if (answer.kind !== "answer")
    return unanswered("zones", answer, "nobody knows whether the region has the zones of the network");
  const usable = answer.value.filter(({ state, id }) => state === "available" && !isWithoutEks(target, id));
  const letters = usable.map(({ name }) => name.slice(context.region.length)).toSorted();
  const fix = `Take zones of ${letters.join(", ")} in ${zonesKey(target)}.`;
  return machineZones(plan.config.network).flatMap((letter) => {
    const name = `${context.region}${letter}`;
    const zone = answer.value.find((one) => one.name === name);
    if (zone === undefined)
      return [
        problem(
          "zones",
          `There is no zone ${name}.`,
          `${context.region} has none of that name for this account.`,
          fix,
        ),
      ];
    if (zone.state !== "available")
      return [
        problem("zones", `The zone ${name} is not available.`, `AWS says that it is ${zone.state}.`, fix),
      ];
    if (!isWithoutEks(target, zone.id)) return [];
    return [
      problem(
        "zones",
        `EKS makes no cluster with a subnet in ${name}.`,
        `It is the zone ${zone.id}, where EKS has no control planes.`,
        fix,
      ),
    ];
  });
}

function isWithoutEks({ plan }: AwsTarget, id: string): boolean {
  return plan.compute === "eks" && ZONES_WITHOUT_EKS.includes(id);
}

/**
 * A cluster that is there, in other zones than the stack file says. "All subnets that you add must be in the same set of AZs
 * as originally provided when you created the cluster", and each of these has one.
 * https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
 *
 * @param answer - Zones of its subnets, with the region; `absent`: it is about to be made. null: the stack has none.
 */
export function clusterZoneFindings(
  target: AwsTarget,
  answer: Answer<ReadonlySet<string>> | null,
): readonly Finding[] {
  if (answer === null || answer.kind === "absent") return [];
  if (answer.kind !== "answer")
    return unanswered(
      "zones",
      answer,
      "nobody knows whether the cluster's zones are those of the stack file",
    );
  const { context, plan } = target;
  const wanted = new Set(machineZones(plan.config.network).map((letter) => `${context.region}${letter}`));
  const [there, planned] = [[...answer.value].toSorted(), [...wanted].toSorted()];
  if (there.join() === planned.join()) return [];
  return [
    problem(
      "zones",
      `The cluster ${context.name} is not in the zones of the stack file.`,
      `It was made with subnets in ${there.join(", ")}, and would get some in ${planned.join(", ")}: EKS takes none in other zones, wants one in each of them, and \`npx engine-room up\` would end there.`,
      `Write ${there.map((name) => name.slice(context.region.length)).join(", ")} in ${zonesKey(target)}; a cluster in other zones is another stack.`,
    ),
  ];
}

/**
 * Pools with a zone that does not offer their instance type. EKS makes no node group then, whatever its size and its other zones:
 * "Your requested instance type is not supported in your requested Availability Zone", InvalidRequestException of
 * CreateNodegroup (issue 6461 of eksctl, issue 154 of awslabs/ec2-spot-workshops).
 */
export function offeringFindings(
  target: AwsTarget,
  needs: readonly MachineNeed[],
  offered: Answer<Offerings>,
): readonly Finding[] {
  if (offered.kind !== "answer")
    return unanswered("offerings", offered, "nobody knows which zones offer the instance types");
  const { region } = target.context;
  return needs.flatMap(({ pool, instanceType }) => {
    const zones = offered.value.get(instanceType) ?? new Set();
    const lacking = poolZones(target, pool).filter((zone) => !zones.has(`${region}${zone}`));
    if (lacking.length === 0) return [];
    const there = [...zones].toSorted().join(", ");
    const refusal =
      target.plan.compute === "eks" ? " EKS makes no node group with a subnet in a zone without it." : "";
    return [
      problem(
        "offerings",
        `The pool ${pool} finds no ${instanceType} in ${lacking.map((zone) => `${region}${zone}`).join(", ")}.`,
        there === ""
          ? `No zone of ${region} offers the type to this account.`
          : `Only ${there} of ${region} ${zones.size === 1 ? "offers" : "offer"} it to this account.${refusal}`,
        offeringFix(target, pool, zones.size > 0),
      ),
    ];
  });
}

/** @param isOffered - In any zone of the region. */
function offeringFix(target: AwsTarget, pool: string, isOffered: boolean): string {
  const key = zonesKey(target);
  // Its type is not the stack file's to say, nor are its zones.
  if (pool === SYSTEM_POOL)
    return isOffered ? `Have zones of these alone in ${key}.` : "Take another region.";
  if (!isOffered) return "Take another region or another instance type.";
  const own = target.plan.compute === "eks" ? "zones of these as `zones`" : "one of these as `zone`";
  return `Write ${own} of the pool ${pool}, and have them in ${key}.`;
}
