/** What commands ask and tell EKS. */
import type { Nodegroup } from "@aws-sdk/client-eks";
import { type Answer, allPages, ask, clientSettings } from "./session.ts";

const sdk = () => import("@aws-sdk/client-eks");

async function client(region: string) {
  const { EKSClient } = await sdk();
  return new EKSClient(clientSettings(region));
}

/** Versions of an add-on that EKS installs on a version of Kubernetes; none where it knows no such add-on. */
export async function addOnVersions(
  region: string,
  addOn: string,
  kubernetesVersion: string,
): Promise<Answer<ReadonlySet<string>>> {
  const { paginateDescribeAddonVersions: paginate } = await sdk();
  const eks = await client(region);
  return ask("eks:DescribeAddonVersions", async (options) => {
    const found = await allPages(
      paginate({ client: eks }, { addonName: addOn, kubernetesVersion }, options),
      (page) => page.addons,
    );
    return new Set(
      found.flatMap(({ addonVersions = [] }) => addonVersions.map(({ addonVersion = "" }) => addonVersion)),
    );
  });
}

/** JSON schema of what an add-on can be set to. */
export async function addOnSchema(region: string, addOn: string, version: string): Promise<Answer<string>> {
  const { DescribeAddonConfigurationCommand } = await sdk();
  const eks = await client(region);
  return ask("eks:DescribeAddonConfiguration", async (options) => {
    const { configurationSchema = "" } = await eks.send(
      new DescribeAddonConfigurationCommand({ addonName: addOn, addonVersion: version }),
      options,
    );
    return configurationSchema;
  });
}

export interface KubernetesVersionReading {
  /** `STANDARD_SUPPORT`, `EXTENDED_SUPPORT`, `UNSUPPORTED`. */
  readonly status: string;
  readonly standardSupportUntil: Date | null;
}

/** `absent` where EKS has no such version. */
export async function kubernetesVersion(
  region: string,
  version: string,
): Promise<Answer<KubernetesVersionReading>> {
  const { DescribeClusterVersionsCommand } = await sdk();
  const eks = await client(region);
  const answer = await ask("eks:DescribeClusterVersions", async (options) => {
    const { clusterVersions = [] } = await eks.send(
      new DescribeClusterVersionsCommand({ clusterVersions: [version] }),
      options,
    );
    return clusterVersions.find(({ clusterVersion }) => clusterVersion === version);
  });
  if (answer.kind !== "answer") return answer;
  if (answer.value === undefined) return { kind: "absent" };
  const { versionStatus, endOfStandardSupportDate } = answer.value;
  return {
    kind: "answer",
    value: { status: versionStatus ?? "", standardSupportUntil: endOfStandardSupportDate ?? null },
  };
}

export interface ClusterReading {
  /** `ACTIVE`, `CREATING`. */
  readonly status: string;
  readonly endpoint: string;
  /** Of its API, in base64. */
  readonly certificateAuthority: string;
  /** Of its control plane; none while it is being made, or goes. */
  readonly subnetIds: readonly string[];
}

export async function eksCluster(region: string, name: string): Promise<Answer<ClusterReading>> {
  const { DescribeClusterCommand } = await sdk();
  const eks = await client(region);
  return ask("eks:DescribeCluster", async (options) => {
    const { cluster } = await eks.send(new DescribeClusterCommand({ name }), options);
    return {
      status: cluster?.status ?? "",
      endpoint: cluster?.endpoint ?? "",
      certificateAuthority: cluster?.certificateAuthority?.data ?? "",
      subnetIds: cluster?.resourcesVpcConfig?.subnetIds ?? [],
    };
  });
}

/** Tags of the entry by which a user or role may use a cluster; `absent` where it has none. */
export async function accessEntryTags(
  region: string,
  cluster: string,
  principalArn: string,
): Promise<Answer<Readonly<Record<string, string>>>> {
  const { DescribeAccessEntryCommand } = await sdk();
  const eks = await client(region);
  return ask("eks:DescribeAccessEntry", async (options) => {
    const { accessEntry } = await eks.send(
      new DescribeAccessEntryCommand({ clusterName: cluster, principalArn }),
      options,
    );
    return accessEntry?.tags ?? {};
  });
}

/** A managed node group, whose name EKS gets from Pulumi with a random end. */
export interface NodeGroupReading {
  readonly name: string;
  /** `ACTIVE`, `CREATING`, `UPDATING`, `DEGRADED`, `DELETING`, `CREATE_FAILED`, `DELETE_FAILED`. */
  readonly status: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly instanceTypes: readonly string[];
  readonly min: number;
  readonly max: number;
  readonly desired: number;
}

/** Those of a cluster, without one that goes while they are asked; `absent` where there is no such cluster. */
export async function nodeGroups(
  region: string,
  cluster: string,
): Promise<Answer<readonly NodeGroupReading[]>> {
  const { DescribeNodegroupCommand, paginateListNodegroups } = await sdk();
  const eks = await client(region);
  const list = await ask("eks:ListNodegroups", (options) =>
    allPages(
      paginateListNodegroups({ client: eks }, { clusterName: cluster }, options),
      (page) => page.nodegroups,
    ),
  );
  if (list.kind !== "answer") return list;
  const answers = await Promise.all(
    list.value.map((name) =>
      ask("eks:DescribeNodegroup", async (options) => {
        const { nodegroup } = await eks.send(
          new DescribeNodegroupCommand({ clusterName: cluster, nodegroupName: name }),
          options,
        );
        return nodeGroup(name, nodegroup);
      }),
    ),
  );
  const groups: NodeGroupReading[] = [];
  for (const answer of answers) {
    if (answer.kind === "answer") groups.push(answer.value);
    else if (answer.kind !== "absent") return answer;
  }
  return { kind: "answer", value: groups };
}

function nodeGroup(
  name: string,
  { status, labels = {}, instanceTypes = [], scalingConfig = {} }: Nodegroup = {},
): NodeGroupReading {
  const { minSize = 0, maxSize = 0, desiredSize = 0 } = scalingConfig;
  return {
    name,
    status: status ?? "",
    labels,
    instanceTypes,
    min: minSize,
    max: maxSize,
    desired: desiredSize,
  };
}

/** What EKS is told of a node group's size. */
export interface NodeGroupSize {
  readonly name: string;
  readonly min: number;
  readonly max: number;
  /** Absent: as many machines as there are, which the autoscaler may be changing at this moment. */
  readonly desired?: number;
}

/** @returns Id of the update, which goes on when EKS has answered. */
export async function resizeNodeGroup(
  region: string,
  cluster: string,
  { name, min, max, desired }: NodeGroupSize,
): Promise<Answer<string>> {
  const { UpdateNodegroupConfigCommand } = await sdk();
  const eks = await client(region);
  return ask("eks:UpdateNodegroupConfig", async (options) => {
    const { update } = await eks.send(
      new UpdateNodegroupConfigCommand({
        clusterName: cluster,
        nodegroupName: name,
        scalingConfig: {
          minSize: min,
          maxSize: max,
          ...(desired === undefined ? {} : { desiredSize: desired }),
        },
      }),
      options,
    );
    return update?.id ?? "";
  });
}

/** `InProgress`, `Successful`, `Failed`, `Cancelled`; in the last two cases with EKS' words. */
export interface UpdateReading {
  readonly status: string;
  readonly words: string;
}

export async function nodeGroupUpdate(
  region: string,
  cluster: string,
  group: string,
  update: string,
): Promise<Answer<UpdateReading>> {
  const { DescribeUpdateCommand } = await sdk();
  const eks = await client(region);
  return ask("eks:DescribeUpdate", async (options) => {
    const { update: found } = await eks.send(
      new DescribeUpdateCommand({ name: cluster, nodegroupName: group, updateId: update }),
      options,
    );
    const errors = (found?.errors ?? []).map(
      ({ errorCode, errorMessage }) => `${errorCode}: ${errorMessage}`,
    );
    return { status: found?.status ?? "", words: errors.join("; ") };
  });
}
