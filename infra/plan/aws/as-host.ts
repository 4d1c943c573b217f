/** A stack on one EC2 instance as one on a Docker host: the same containers run on it. */
import type { Ec2Config } from "../../config/aws-stacks.ts";
import type { GpuStackConfig } from "../../config/config.ts";
import { withoutAccount } from "./account-keys.ts";
import { pulledFrom } from "./context.ts";
import { HUB_TOKEN_FILE, STORE_FOLDER } from "./names.ts";

type HostConfig = Extract<GpuStackConfig, { platform: "docker" }>;

/** Docker's own, on the instance. */
const SOCKET = "unix:///var/run/docker.sock";
/** The instance's security group says who reaches it. */
const EVERY_ADDRESS = "0.0.0.0";

/** The same stack, with what the instance decides filled in. */
export function ec2AsHost(config: Ec2Config): HostConfig {
  const { pools, hub, engineStore, gateway, databaseStorage: _disk, ...shared } = withoutAccount(config);
  const [pool] = pools;
  const { tls: _tls, zoneId: _zoneId, hostname: _hostname, replicas: _replicas, ...door } = gateway;
  return {
    ...shared,
    platform: "docker",
    host: {
      uri: SOCKET,
      address: EVERY_ADDRESS,
      instanceType: pool?.instanceType,
      machine: pool?.machine,
      hourlyUsd: pool?.hourlyUsd,
      diskGiB: pool?.diskGiB ?? 0,
    },
    images: pulledFrom(config),
    engineStore: { path: STORE_FOLDER, readMBPerSecond: engineStore.readMBPerSecond },
    hub: hub.token === undefined && hub.tokenSecretArn === undefined ? {} : { tokenFile: HUB_TOKEN_FILE },
    gateway: { ...door, exposure: "internal" },
  };
}
