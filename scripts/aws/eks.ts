/** What commands ask and tell EKS. */
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
    };
  });
}
