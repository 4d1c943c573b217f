/** Everything that can be wrong with an account, one check each: from what the stack needs and what AWS says. */
import { STACK_TAG } from "../../infra/plan/aws/context.ts";
import { caller, missingProfile } from "../aws/account.ts";
import type { RunningMachine } from "../aws/ec2.ts";
import type { Answer } from "../aws/session.ts";
import type { AskRegistry } from "../images/registry.ts";
import type { AwsTarget } from "../program/aws-target.ts";
import { adminFindings, apiCidrFindings, readAdmins } from "./aws-access.ts";
import { addOnConfigurationFindings, addOnFindings } from "./aws-add-ons.ts";
import { callerFindings, exampleAccountFindings } from "./aws-caller.ts";
import { databaseDiskFindings } from "./aws-database-disk.ts";
import { awsImageFindings } from "./aws-images.ts";
import { cidrFindings, existingNetworkFindings, otherVpcs } from "./aws-network.ts";
import { ADDRESS_QUOTA, countFinding, VPC_QUOTA, vcpuFindings } from "./aws-quotas.ts";
import { type AwsNeeds, type AwsReading, readAws } from "./aws-reading.ts";
import { repositoryFindings } from "./aws-repositories.ts";
import { reservationFindings } from "./aws-reservations.ts";
import {
  certificateFindings,
  fileSystemFindings,
  hubFindings,
  hubSecretFindings,
  hubSecretTextFindings,
  kubernetesVersionFindings,
} from "./aws-services.ts";
import { unanswered } from "./aws-words.ts";
import { clusterZoneFindings, offeringFindings, zoneFindings } from "./aws-zones.ts";
import type { CheckResult, Finding } from "./finding.ts";

/**
 * @returns All that was looked at, with what is wrong; where the credentials are none, or another account's, that and what
 * the stack file alone tells: nothing else is asked then.
 */
export async function awsPreflight(
  target: AwsTarget,
  needs: AwsNeeds,
  askOther: AskRegistry,
): Promise<readonly CheckResult[]> {
  const answer = await caller(target.context.region);
  const findings = callerFindings(target.context, answer, await missingProfile());
  if (answer.kind !== "answer" || findings.length > 0)
    return [
      { looksAt: CREDENTIALS, findings: [...findings, ...exampleAccountFindings(target.context, answer)] },
      ...unaskedChecks(target),
    ];
  const [reading, admins] = await Promise.all([
    readAws(target, needs, askOther),
    readAdmins(target, answer.value),
  ]);
  return [
    { looksAt: CREDENTIALS, findings },
    ...results({
      "administrators of the cluster": onEks(target, adminFindings(target, admins)),
    }),
    ...unaskedChecks(target),
    ...awsChecks(target, needs, reading),
  ];
}

const CREDENTIALS = "credentials and account";

/** What needs no answer of AWS. Pure. */
function unaskedChecks(target: AwsTarget): readonly CheckResult[] {
  return results({ "addresses that reach the cluster's API": onEks(target, apiCidrFindings(target)) });
}

/** All that AWS was asked about, in the order of the table. Pure. */
function awsChecks(target: AwsTarget, needs: AwsNeeds, reading: AwsReading): readonly CheckResult[] {
  const { machines, addOns } = needs;
  return results({
    "zones of the network": [
      ...zoneFindings(target, reading.zones),
      ...clusterZoneFindings(target, reading.clusterZones),
    ],
    "zones that offer the instance types": offeringFindings(target, machines, reading.offered),
    "capacity reservations":
      reading.reservations.size === 0 ? null : reservationFindings(target, machines, reading),
    "quotas of vCPUs": vcpuFindings(machines, {
      ...reading,
      others: otherMachines(target, reading.running),
      region: target.context.region,
    }),
    "quotas of VPCs and addresses": networkQuotaFindings(target, reading),
    "networks and their addresses": [
      ...cidrFindings(target, reading.vpcs),
      ...existingNetworkFindings(target, reading.vpcs, reading.subnets),
    ],
    "engine store": reading.fileSystem && fileSystemFindings(target, reading.fileSystem),
    "disk of the databases": reading.databaseDisks && databaseDiskFindings(target, reading.databaseDisks),
    certificate: reading.certificate && certificateFindings(target, reading.certificate),
    "token of the model hub": reading.hubSecret && [
      ...hubSecretTextFindings(target, reading.hubSecretText),
      ...hubSecretFindings(target, reading.hubSecret),
    ],
    "gated models": reading.hub.size === 0 ? null : hubFindings(reading.hub, reading.hasHubToken),
    "images and registries": [
      ...repositoryFindings(target, reading.repositories),
      ...awsImageFindings(target, reading),
    ],
    "version of Kubernetes": onEks(target, kubernetesVersionFindings(target, reading.kubernetes)),
    "add-ons of the cluster": onEks(target, [
      ...addOnFindings(target, addOns, reading.addOns),
      ...addOnConfigurationFindings(addOns, reading.addOnSchemas),
    ]),
  });
}

/** @param all - By what was looked at; null: the stack has nothing of the kind. */
function results(all: Readonly<Record<string, readonly Finding[] | null>>): readonly CheckResult[] {
  return Object.entries(all).map(([looksAt, findings]) =>
    findings === null ? { looksAt, findings: [], isNeeded: false } : { looksAt, findings },
  );
}

function onEks({ plan }: AwsTarget, findings: readonly Finding[]): readonly Finding[] | null {
  return plan.compute === "eks" ? findings : null;
}

/** Those that `up` does not already count in its pools. Machines of EKS have its own tag. */
function otherMachines(
  { context }: AwsTarget,
  running: Answer<readonly RunningMachine[]>,
): Answer<readonly RunningMachine[]> {
  if (running.kind !== "answer") return running;
  const isOwn = ({ tags }: RunningMachine) =>
    tags.get(STACK_TAG) === context.stack || tags.get("eks:cluster-name") === context.name;
  return { kind: "answer", value: running.value.filter((one) => !isOwn(one)) };
}

/** What a network takes that the stack makes; none of it where the network is there. */
function networkQuotaFindings(
  { context, plan: { config } }: AwsTarget,
  { vpcs, addresses, quotas }: AwsReading,
): readonly Finding[] {
  const { existing, nat, zones } = config.network;
  if (existing !== undefined) return [];
  const { region, stack } = context;
  const so = "what is there already counts as nothing";
  return [
    ...unanswered("quotas", addresses, so),
    ...countFinding(VPC_QUOTA, {
      needed: 1,
      // That it can't be listed is a finding of the networks.
      used: vpcs.kind === "answer" ? otherVpcs(vpcs.value, stack).length : 0,
      allowed: quotas.get(VPC_QUOTA.code),
      region,
    }),
    ...countFinding(ADDRESS_QUOTA, {
      needed: nat === "perZone" ? zones.length : 1,
      used:
        addresses.kind === "answer"
          ? addresses.value.filter((tags) => tags.get(STACK_TAG) !== stack).length
          : 0,
      allowed: quotas.get(ADDRESS_QUOTA.code),
      region,
    }),
  ];
}
