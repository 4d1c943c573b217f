/** `platform: aws`: a cluster on EKS, or one machine of EC2. */
import type { AwsConfig, Ec2Config, EksConfig } from "../../config/aws-stacks.ts";
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
