/** A planned container as the body of the Docker Engine API's `POST /containers/create`. */
import type { ContainerArgs, DockerContainer } from "../../../infra/plan/docker/container-args.ts";

const NANOSECONDS = 1_000_000_000;
const MIB = 2 ** 20;

/**
 * Pure: every option that is planned. Files are not among them: they are put into the created container.
 *
 * @param image - Reference or id of the image.
 * @param network - That it is attached to, under its alias.
 */
export function createBody({ args, gpus }: DockerContainer, image: string, network: string): object {
  const { entrypoints, command, user, shmSize, healthcheck } = args;
  return {
    Image: image,
    ...(entrypoints === undefined ? {} : { Entrypoint: entrypoints }),
    ...(command === undefined ? {} : { Cmd: command }),
    Env: args.envs,
    ...(user === undefined ? {} : { User: user }),
    Labels: labelRecord(args.labels),
    ExposedPorts: Object.fromEntries(args.ports.map(({ internal }) => [`${internal}/tcp`, {}])),
    StopTimeout: args.stopTimeout,
    ...(healthcheck === undefined ? {} : { Healthcheck: healthcheckOf(healthcheck) }),
    HostConfig: {
      NetworkMode: network,
      Mounts: args.mounts.map(({ type, source, target, readOnly }) => ({
        Type: type,
        Source: source,
        Target: target,
        ReadOnly: readOnly,
      })),
      PortBindings: portBindings(args),
      IpcMode: args.ipcMode,
      ...(shmSize === undefined ? {} : { ShmSize: shmSize * MIB }),
      Ulimits: (args.ulimits ?? []).map(({ name, soft, hard }) => ({ Name: name, Soft: soft, Hard: hard })),
      DeviceRequests: deviceRequests(gpus),
      RestartPolicy: { Name: args.restart },
      ReadonlyRootfs: args.readOnly,
      Tmpfs: args.tmpfs,
      LogConfig: { Type: args.logDriver, Config: args.logOpts },
    },
    NetworkingConfig: { EndpointsConfig: { [network]: { Aliases: args.networksAdvanced[0]?.aliases } } },
  };
}

export function labelRecord(labels: ContainerArgs["labels"]): Record<string, string> {
  return Object.fromEntries(labels.map(({ label, value }) => [label, value]));
}

/** Seconds of a duration: `1m14s`. */
export function secondsOf(duration: string): number {
  const [, hours = 0, minutes = 0, seconds = 0] = /^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$/.exec(duration) ?? [];
  return Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds);
}

function healthcheckOf(check: NonNullable<ContainerArgs["healthcheck"]>): object {
  const nanoseconds = (duration = "") => secondsOf(duration) * NANOSECONDS;
  return {
    Test: check.tests,
    Interval: nanoseconds(check.interval),
    Timeout: nanoseconds(check.timeout),
    StartPeriod: nanoseconds(check.startPeriod),
    Retries: check.retries,
  };
}

/** One port of a container may be bound to several of the host. */
function portBindings({ ports }: ContainerArgs): Record<string, object[]> {
  const bindings: Record<string, object[]> = {};
  for (const { internal, ip, external } of ports) {
    const key = `${internal}/tcp`;
    bindings[key] = [...(bindings[key] ?? []), { HostIp: ip, HostPort: `${external}` }];
  }
  return bindings;
}

function deviceRequests(gpus: DockerContainer["gpus"]): object[] {
  if (gpus === null) return [];
  const devices = gpus === "all" ? { Count: -1 } : { DeviceIDs: gpus.map(String) };
  return [{ Driver: "nvidia", Capabilities: [["gpu"]], ...devices }];
}
