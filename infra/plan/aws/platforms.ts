/** `platform: aws`: a cluster on EKS, or one machine of EC2. */
import type { AwsConfig, Ec2Config, EksConfig } from "../../config/aws-stacks.ts";
import { externalDatabaseChecks, gatewayChecks, hubChecks } from "../checks/access.ts";
import { accountChecks, regionChecks } from "../checks/aws.ts";
import { createSecret, existingPartChecks, networkChecks } from "../checks/aws-network.ts";
import { checksAs } from "../checks/check.ts";
import { clusterChecks } from "../checks/cluster.ts";
import { hostChecks } from "../checks/docker.ts";
import { ec2Checks } from "../checks/ec2.ts";
import { eksChecks } from "../checks/eks.ts";
import { scalingChecks } from "../checks/kubernetes.ts";
import { dockerGpuHost } from "../docker/host.ts";
import type { GpuPlatform } from "../gpu-platform.ts";
import type { GpuStackSpec, PoolSpec } from "../spec.ts";
import { ec2AsHost, eksAsCluster, eksCluster, withoutSecrets } from "./as-platforms.ts";
import { rentedParts } from "./services.ts";

const common = {
  isRented: true,
  hasPools: true,
  store({ engineStore }: AwsConfig): GpuStackSpec["store"] {
    const { readMBPerSecond, throughput, provisionedMiBPerSecond = null, existing } = engineStore;
    // A file system that exists already is paid for elsewhere.
    const isOwn = throughput === "provisioned" && existing === undefined;
    const provisionedMiBps = isOwn ? provisionedMiBPerSecond : null;
    return { kind: "efs", readMBPerSecond, sizeGiB: null, provisionedMiBps };
  },
  region: ({ region }: AwsConfig) => region,
  rented: rentedParts,
} as const;

/** Checks of the cluster, of the machine and of their account. */
const awsChecks = {
  ...externalDatabaseChecks("mongo.uri and vector.url"),
  ...regionChecks,
  ...networkChecks,
  ...accountChecks,
  ...existingPartChecks,
  ...hubChecks<AwsConfig>(({ region }) => `hub.tokenSecretArn (\`${createSecret(region)}\` prints the ARN)`),
  ...gatewayChecks("gateway.tls.certificateArn"),
};

export const eksPlatform: GpuPlatform<EksConfig> = {
  ...common,
  runsOn: "cluster",
  pools: ({ pools }) =>
    pools.map(({ nodes, warm, prePullImages, ...pool }, index) => ({
      ...pool,
      nodes: keptNodes(nodes, warm),
      prePullsImages: prePullImages,
      path: `pools[${index}]`,
    })),
  gateways: ({ gateway }) => gateway.replicas,
  checks: { ...awsChecks, ...scalingChecks, ...eksChecks, ...checksAs(eksAsCluster, clusterChecks) },
  plan(wanted, parts) {
    const config = withoutSecrets(wanted);
    return {
      ...parts,
      gateway: eksAsCluster(config).gateway,
      platform: "aws",
      compute: "eks",
      cluster: eksCluster(config),
      config,
    };
  },
};

/** Warm machines are machines that the autoscaler may not remove; only `npm run sleep` does. */
function keptNodes({ min, max }: PoolSpec["nodes"], warm: number): PoolSpec["nodes"] {
  return { min: Math.max(min, Math.min(warm, max)), max };
}

export const ec2Platform: GpuPlatform<Ec2Config> = {
  ...common,
  runsOn: "host",
  pools: ({ pools }) =>
    pools.map((pool, index) => ({ ...pool, sharing: { mode: "none" }, path: `pools[${index}]` })),
  gateways: () => 1,
  checks: { ...awsChecks, ...hostChecks, ...ec2Checks },
  plan(wanted, parts) {
    const config = withoutSecrets(wanted);
    const host = ec2AsHost(config);
    return {
      ...parts,
      gateway: host.gateway,
      platform: "aws",
      compute: "ec2",
      host: dockerGpuHost(host),
      config,
    };
  },
};
