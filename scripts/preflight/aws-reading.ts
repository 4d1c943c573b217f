/** Asks AWS, the hub and this machine all that preflight looks at; nothing changes anywhere. */
import {
  type CertificateReading,
  certificate,
  type FileSystemReading,
  fileSystem,
  quotaValue,
  type SecretReading,
  secret,
  secretText,
} from "../aws/account.ts";
import { availabilityZones, capacityReservation, type ZoneReading } from "../aws/capacity.ts";
import {
  addresses,
  type DiskReading,
  type Offerings,
  offerings,
  type RunningMachine,
  runningMachines,
  type SubnetReading,
  subnets,
  type VpcReading,
  vcpusOfTypes,
  vpcs,
} from "../aws/ec2.ts";
import { ecrLogin } from "../aws/ecr.ts";
import {
  addOnSchema,
  addOnVersions,
  eksCluster,
  type KubernetesVersionReading,
  kubernetesVersion,
} from "../aws/eks.ts";
import { askHub, type HubAnswer } from "../aws/hub.ts";
import type { Answer } from "../aws/session.ts";
import type { AskRegistry } from "../images/registry.ts";
import type { AwsTarget } from "../program/aws-target.ts";
import type { AddOn } from "./aws-add-ons.ts";
import { readDatabaseDisks } from "./aws-database-disk.ts";
import { type AwsImageAnswers, readAwsImages } from "./aws-images.ts";
import { ADDRESS_QUOTA, type MachineNeed, neededQuotas, VPC_QUOTA } from "./aws-quotas.ts";
import { type RepositoryReading, readRepositories } from "./aws-repositories.ts";
import { type Reservations, reservationIds } from "./aws-reservations.ts";

/** What is asked about besides what the stack file says itself. */
export interface AwsNeeds {
  readonly machines: readonly MachineNeed[];
  readonly addOns: readonly AddOn[];
}

export interface AwsReading {
  readonly offered: Answer<Offerings>;
  readonly zones: Answer<readonly ZoneReading[]>;
  readonly reservations: Reservations;
  /** All machines of the account in the region. */
  readonly running: Answer<readonly RunningMachine[]>;
  /** Of the types of these. */
  readonly vcpus: Answer<ReadonlyMap<string, number>>;
  /** By quota code. */
  readonly quotas: ReadonlyMap<string, Answer<number>>;
  readonly vpcs: Answer<readonly VpcReading[]>;
  /** Tags of each Elastic IP. */
  readonly addresses: Answer<readonly ReadonlyMap<string, string>[]>;
  /** null from here on: the stack has nothing to ask about. */
  readonly subnets: Answer<readonly SubnetReading[]> | null;
  readonly certificate: Answer<CertificateReading> | null;
  readonly fileSystem: Answer<FileSystemReading> | null;
  readonly hubSecret: Answer<SecretReading> | null;
  readonly hubSecretText: Answer<string> | null;
  /** By gated repository. */
  readonly hub: ReadonlyMap<string, HubAnswer>;
  readonly hasHubToken: boolean;
  readonly images: AwsImageAnswers;
  readonly login: Answer<unknown>;
  readonly repositories: RepositoryReading;
  readonly kubernetes: Answer<KubernetesVersionReading> | null;
  readonly databaseDisks: Answer<readonly DiskReading[]> | null;
  /** Zones, with the region, of the subnets of a cluster that is there. */
  readonly clusterZones: Answer<ReadonlySet<string>> | null;
  readonly addOns: ReadonlyMap<string, Answer<ReadonlySet<string>>>;
  /** Of what each add-on is set to, where it is set to anything and EKS installs its version. */
  readonly addOnSchemas: ReadonlyMap<string, Answer<string>>;
}

/** Everything at once; each service is asked a few things at a time. */
export async function readAws(
  target: AwsTarget,
  needs: AwsNeeds,
  askOther: AskRegistry,
): Promise<AwsReading> {
  const { region } = target.context;
  const { config } = target.plan;
  const { existing } = config.network;
  const codes = [...neededQuotas(needs.machines), VPC_QUOTA, ADDRESS_QUOTA];
  const [
    offered,
    machines,
    quotas,
    networks,
    elastic,
    own,
    named,
    hub,
    images,
    login,
    repositories,
    cluster,
    places,
  ] = await Promise.all([
    offerings(region, [...new Set(needs.machines.map(({ instanceType }) => instanceType))]),
    readMachines(region),
    Promise.all(codes.map(async (quota) => [quota.code, await quotaValue(region, quota)] as const)),
    vpcs(region),
    addresses(region),
    existing === undefined
      ? null
      : subnets(
          region,
          [...existing.privateSubnets, ...existing.publicSubnets].map(({ id }) => id),
        ),
    readNamed(target),
    readHub(target),
    readAwsImages(target, askOther),
    ecrLogin(region),
    readRepositories(target),
    readClusterVersions(target, needs),
    readPlaces(target),
  ]);
  return {
    offered,
    ...machines,
    quotas: new Map(quotas),
    vpcs: networks,
    addresses: elastic,
    subnets: own,
    ...named,
    ...hub,
    images,
    // The token itself is for `images` alone.
    login: login.kind === "answer" ? { kind: "answer", value: true } : login,
    repositories,
    ...cluster,
    ...places,
  };
}

async function readPlaces(
  target: AwsTarget,
): Promise<Pick<AwsReading, "zones" | "reservations" | "clusterZones" | "databaseDisks">> {
  const { region } = target.context;
  const [zones, reservations, clusterZones, databaseDisks] = await Promise.all([
    availabilityZones(region),
    Promise.all(
      reservationIds(target).map(async (id) => [id, await capacityReservation(region, id)] as const),
    ),
    readClusterZones(target),
    readDatabaseDisks(target),
  ]);
  return { zones, reservations: new Map(reservations), clusterZones, databaseDisks };
}

async function readClusterZones({ plan, context }: AwsTarget): Promise<AwsReading["clusterZones"]> {
  if (plan.compute !== "eks") return null;
  const cluster = await eksCluster(context.region, context.name);
  if (cluster.kind !== "answer") return cluster;
  const { subnetIds } = cluster.value;
  if (subnetIds.length === 0) return { kind: "absent" };
  const found = await subnets(context.region, subnetIds);
  if (found.kind !== "answer") return found;
  return { kind: "answer", value: new Set(found.value.map(({ zone }) => zone)) };
}

async function readMachines(region: string): Promise<Pick<AwsReading, "running" | "vcpus">> {
  const running = await runningMachines(region);
  const types = running.kind === "answer" ? [...new Set(running.value.map(({ type }) => type))] : [];
  return {
    running,
    vcpus: types.length === 0 ? { kind: "answer", value: new Map() } : await vcpusOfTypes(region, types),
  };
}

async function readNamed({
  plan: { config },
}: AwsTarget): Promise<Pick<AwsReading, "certificate" | "fileSystem">> {
  const { region, gateway, engineStore } = config;
  const arn = gateway.tls?.certificateArn;
  const id = engineStore.existing?.fileSystemId;
  const [tls, store] = await Promise.all([
    arn === undefined ? null : certificate(region, arn),
    id === undefined ? null : fileSystem(region, id),
  ]);
  return { certificate: tls, fileSystem: store };
}

/** With the token of the stack, or that of the environment: one under `secure:` only the Pulumi CLI can read. */
async function readHub({
  plan,
}: AwsTarget): Promise<Pick<AwsReading, "hub" | "hubSecret" | "hubSecretText" | "hasHubToken">> {
  const { hub } = plan.config;
  const arn = hub.tokenSecretArn;
  // One machine asks the secret's own region; on EKS it is the stack's.
  const region = arn?.split(":")[3] ?? plan.config.region;
  const [hubSecret, hubSecretText] =
    arn === undefined ? [null, null] : await Promise.all([secret(region, arn), secretText(region, arn)]);
  const stored = hubSecretText?.kind === "answer" ? hubSecretText.value.trim() : undefined;
  const inFile = typeof hub.token === "string" ? hub.token : undefined;
  const token = [stored, inFile, process.env.HF_TOKEN].find((one) => one !== undefined && one !== "");
  const answers = gatedWeights(plan).map(
    async ({ repository, revision }) =>
      [repository, await askHub(repository, revision, token ?? null)] as const,
  );
  return {
    hub: new Map(await Promise.all(answers)),
    hubSecret,
    hubSecretText,
    hasHubToken: token !== undefined,
  };
}

/** Weights that the hub gives only to accounts that accepted their licence. */
function gatedWeights({ models }: AwsTarget["plan"]) {
  return models.flatMap(
    ({
      spec: {
        engine: { row, weights },
      },
    }) =>
      weights.kind === "hub" && row.source.gated && weights.repository === row.source.repository
        ? [weights]
        : [],
  );
}

async function readClusterVersions(
  { plan }: AwsTarget,
  { addOns }: AwsNeeds,
): Promise<Pick<AwsReading, "kubernetes" | "addOns" | "addOnSchemas">> {
  if (plan.compute !== "eks") return { kubernetes: null, addOns: new Map(), addOnSchemas: new Map() };
  const { region, cluster } = plan.config;
  const [kubernetes, found] = await Promise.all([
    kubernetesVersion(region, cluster.version),
    Promise.all(
      addOns.map(async ({ name }) => [name, await addOnVersions(region, name, cluster.version)] as const),
    ),
  ]);
  const versions = new Map(found);
  const schemas = await Promise.all(
    addOns.map(async ({ name, version, configuration }) => {
      const answer = versions.get(name);
      if (configuration === null || answer?.kind !== "answer" || !answer.value.has(version)) return [];
      return [[name, await addOnSchema(region, name, version)] as const];
    }),
  );
  return { kubernetes, addOns: versions, addOnSchemas: new Map(schemas.flat()) };
}
