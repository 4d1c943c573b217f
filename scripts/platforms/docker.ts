/** Stacks on a Docker host, of this machine or behind ssh. */

import { planImages } from "../../infra/image-inputs.ts";
import { dockerEndpoints } from "../../infra/plan/docker/endpoints.ts";
import { forwards, remoteEndpoints, sshCommand } from "../connect/forwards.ts";
import { dockerLines, ofStack, stackContainers } from "../docker-host/containers.ts";
import { removeLeftovers } from "../docker-host/leftovers.ts";
import { isServing, type ServiceStatus, serviceStatuses } from "../docker-host/service-states.ts";
import { dockerPreflight } from "../preflight/docker.ts";
import { engineFinding } from "../preflight/docker-reading.ts";
import { hostProbe, sshDestination } from "../preflight/host-probe.ts";
import { pulumiCheck } from "../preflight/programs.ts";
import { type DockerTarget, readDockerTarget } from "../program/targets.ts";
import { knownObjects } from "../stack/state.ts";
import { defaultOperations, deleteDocuments, formatSeconds, sayKept } from "./defaults.ts";
import type { Operations, StackSource, StatusReport } from "./operations.ts";

export function operations(source: StackSource): Operations {
  const { stack } = source;
  const target = () => readDockerTarget(stack);
  return {
    ...defaultOperations(source),
    logged: "containers",
    async preflight() {
      const docker = target();
      const { uri } = docker.plan.host;
      const findings = await dockerPreflight(docker, hostProbe(uri));
      return { host: uri, findings: [...pulumiCheck("a Docker host").findings, ...findings] };
    },
    status: () => status(target()),
    async logs() {
      const { plan, stack: planned } = target();
      const { uri } = plan.host;
      const found = await stackContainers(stack.name, hostProbe(uri));
      const services = serviceStatuses(stack.name, planned, found, Date.now());
      return new Map(
        services
          .filter(({ state }) => state !== "MISSING")
          .map(({ name, container }) => [
            name,
            ({ lines, follow }) => ({
              argv: ["docker", "logs", "--tail", lines, ...(follow ? ["--follow"] : []), container],
              environment: { DOCKER_HOST: uri },
            }),
          ]),
      );
    },
    images() {
      const { plan } = target();
      const { needed, inputs, found: images } = planImages(plan);
      const { registry, uri } = plan.host;
      return { target: { needed, options: inputs, images, registry, uri }, engineFinding, aws: null };
    },
    isBehindSsh: () => sshDestination(target().plan.host.uri) !== undefined,
    tunnel() {
      const { plan } = target();
      const destination = sshDestination(plan.host.uri);
      if (destination === undefined) return null;
      // The plan knows the endpoints: the state may be on another machine.
      return forwards(remoteEndpoints(dockerEndpoints(plan))).then((addresses) => ({
        argv: sshCommand(destination, addresses),
        addresses,
      }));
    },
    async removeLeftovers(state) {
      const { plan } = target();
      return removeLeftovers(stack.name, knownObjects(await state()), hostProbe(plan.host.uri));
    },
    // A host that gives no answer ends `down` before anything is said to be gone.
    beforeDown: async () => void (await documentVolumes(target())),
    async afterDown(deletesData) {
      const { probe, names } = await documentVolumes(target());
      if (names.length > 0 && deletesData) await dockerLines(probe, ["volume", "rm", ...names]);
      else if (names.length > 0) sayKept(`the volumes ${names.join(" and ")} of the Docker host`, stack);
      return deleteDocuments(stack, deletesData);
    },
    hostProbe: () => hostProbe(target().plan.host.uri),
  };
}

/** Volumes that hold documents, as the host has them; the engine store is none of them. */
async function documentVolumes({ name, plan, stack }: DockerTarget) {
  const probe = hostProbe(plan.host.uri);
  const onHost = await dockerLines(probe, ["volume", "ls", "--quiet", ...ofStack(name)]);
  const names = stack.volumes
    .filter(
      ({ purpose, name: volume }) => (purpose === "mongo" || purpose === "vector") && onHost.includes(volume),
    )
    .map(({ name: volume }) => volume);
  return { probe, names };
}

async function status({ name: stack, plan, stack: planned }: DockerTarget): Promise<StatusReport> {
  const found = await stackContainers(stack, hostProbe(plan.host.uri));
  const start = `\`npx engine-room start --stack ${stack}\``;
  if (found.length === 0) {
    const text = `The stack ${stack} has no containers at ${plan.host.uri}; ${start} brings it up.\n`;
    return { services: [], isHealthy: false, text };
  }
  const services = serviceStatuses(stack, planned, found, Date.now());
  const isHealthy = isServing(services);
  const lines = containerLines(services);
  if (!isHealthy) lines.push(`Not all of them are as the stack file wants them; ${start} mends that.`);
  return { services, isHealthy, text: `${lines.join("\n")}\n` };
}

function containerLines(services: readonly ServiceStatus[]): string[] {
  const widths = (["name", "container"] as const).map((key) =>
    Math.max(...services.map((service) => service[key].length)),
  );
  return services.map(({ name, container, state, uptimeSeconds, exitCode, restarts, ports }) => {
    const life = [
      ...(uptimeSeconds === undefined ? [] : [`up ${formatSeconds(uptimeSeconds)}`]),
      ...(exitCode === undefined ? [] : [`exit code ${exitCode}`]),
      ...(restarts === 0 ? [] : [`${restarts} restarts`]),
    ];
    const columns = [
      name.padEnd(widths[0] ?? 0),
      state.padEnd("UNPLANNED".length),
      life.join(", ").padEnd(24),
      container.padEnd(widths[1] ?? 0),
      Object.values(ports).join(", "),
    ];
    return columns.join(" ").trimEnd();
  });
}
