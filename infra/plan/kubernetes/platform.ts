/** `platform: kubernetes` on GPUs. */
import type { GpuStackConfig } from "../../config/config.ts";
import { type GpuPlatform, NOT_RENTED } from "../gpu-platform.ts";
import { kubernetesCluster } from "./cluster.ts";

export const kubernetesPlatform: GpuPlatform<Extract<GpuStackConfig, { platform: "kubernetes" }>> = {
  runsOn: "cluster",
  isRented: false,
  hasPools: true,
  pools: ({ pools }) =>
    pools.map(({ prePullImages, ...pool }, index) => ({
      ...pool,
      prePullsImages: prePullImages,
      path: `pools[${index}]`,
    })),
  store: ({ engineStore: { existingClaim, sizeGiB, readMBPerSecond } }) => ({
    kind: "volume",
    readMBPerSecond,
    // A claim that exists has the size that it has.
    sizeGiB: existingClaim === undefined ? sizeGiB : null,
    provisionedMiBps: null,
  }),
  gateways: ({ gateway }) => gateway.replicas,
  region: () => null,
  rented: () => NOT_RENTED,
  plan: (config, parts) => ({
    ...parts,
    platform: "kubernetes",
    cluster: kubernetesCluster(config),
    gateway: config.gateway,
  }),
};
