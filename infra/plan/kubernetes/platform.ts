/** `platform: kubernetes` on GPUs. */
import type { GpuStackConfig } from "../../config/config.ts";
import { databaseChecks, externalDatabaseChecks, gatewayChecks, hubChecks } from "../checks/access.ts";
import { clusterChecks } from "../checks/cluster.ts";
import { CERTIFICATE_KEYS, kubernetesChecks, scalingChecks } from "../checks/kubernetes.ts";
import { driverChecks } from "../checks/release.ts";
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
  checks: {
    ...databaseChecks,
    ...externalDatabaseChecks("mongo.uri or mongo.uriSecret, and vector.url"),
    ...kubernetesChecks,
    ...scalingChecks,
    ...driverChecks,
    ...clusterChecks,
    ...hubChecks(() => "hub.tokenSecret"),
    ...gatewayChecks(CERTIFICATE_KEYS),
  },
  plan: (config, parts) => ({
    ...parts,
    platform: "kubernetes",
    cluster: kubernetesCluster(config),
    gateway: config.gateway,
  }),
};
