/** A planned container as the body of the Docker Engine API's `POST /containers/create`. */
import {
  type DockerContainer,
  type DockerHealth,
  type DockerMount,
  LOG_LIMITS,
} from "../../../infra/plan/docker/types.ts";

const NANOSECONDS = 1_000_000_000;
const MIB = 2 ** 20;

/**
 * Pure: every option that is planned. Files are not among them: they are put into the created container.
 *
 * @param image - Reference or id of the image.
 * @param network - That it is attached to, under its alias.
 */
export function createBody(container: DockerContainer, image: string, network: string): object {
  const { entrypoint, health, memoryMiB, shmBytes, user } = container;
  return {
    Image: image,
    ...(entrypoint === null ? {} : { Entrypoint: entrypoint }),
    ...(container.command.length === 0 ? {} : { Cmd: container.command }),
    Env: Object.entries(container.environment).map(([name, value]) => `${name}=${value}`),
    ...(user === null ? {} : { User: user }),
    Labels: container.labels,
    ExposedPorts: Object.fromEntries(container.ports.map((port) => [`${port.containerPort}/tcp`, {}])),
    StopTimeout: container.stopTimeoutSeconds,
    ...(health === null ? {} : { Healthcheck: healthcheck(health) }),
    HostConfig: {
      NetworkMode: network,
      Mounts: container.mounts.map(mount),
      PortBindings: portBindings(container),
      IpcMode: container.ipc,
      ...(shmBytes === null ? {} : { ShmSize: shmBytes }),
      Ulimits: Object.entries(container.ulimits).map(([Name, limit]) => ({ Name, Soft: limit, Hard: limit })),
      DeviceRequests: deviceRequests(container.gpus),
      RestartPolicy: { Name: container.lifecycle === "service" ? "unless-stopped" : "no" },
      ReadonlyRootfs: container.readOnlyRoot,
      Tmpfs: Object.fromEntries(
        Object.entries(container.tmpfsBytes).map(([path, bytes]) => [path, `size=${bytes},mode=1777`]),
      ),
      // Without the second one Docker allows as much swap again.
      ...(memoryMiB === null ? {} : { Memory: memoryMiB * MIB, MemorySwap: memoryMiB * MIB }),
      LogConfig: {
        Type: LOG_LIMITS.driver,
        Config: { "max-file": `${LOG_LIMITS.files}`, "max-size": `${LOG_LIMITS.fileMiB}m` },
      },
    },
    NetworkingConfig: { EndpointsConfig: { [network]: { Aliases: [container.networkAlias] } } },
  };
}

function healthcheck({ test, ...health }: DockerHealth): object {
  return {
    Test: ["CMD", ...test],
    Interval: health.intervalSeconds * NANOSECONDS,
    Timeout: health.timeoutSeconds * NANOSECONDS,
    StartPeriod: health.startPeriodSeconds * NANOSECONDS,
    Retries: health.retries,
  };
}

function mount({ source, path, readOnly }: DockerMount): object {
  const [type, name] = "volume" in source ? ["volume", source.volume] : ["bind", source.hostPath];
  return { Type: type, Source: name, Target: path, ReadOnly: readOnly };
}

/** One port of a container may be bound to several of the host. */
function portBindings({ ports }: DockerContainer): Record<string, object[]> {
  const bindings: Record<string, object[]> = {};
  for (const { containerPort, hostAddress, hostPort } of ports) {
    const key = `${containerPort}/tcp`;
    bindings[key] = [...(bindings[key] ?? []), { HostIp: hostAddress, HostPort: `${hostPort}` }];
  }
  return bindings;
}

function deviceRequests(gpus: DockerContainer["gpus"]): object[] {
  if (gpus === null) return [];
  const devices = gpus === "all" ? { Count: -1 } : { DeviceIDs: gpus.map(String) };
  return [{ Driver: "nvidia", Capabilities: [["gpu"]], ...devices }];
}
