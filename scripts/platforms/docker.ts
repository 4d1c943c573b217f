/** Stacks on a Docker host, of this machine or behind ssh. */

import { planImages } from "../../infra/image-inputs.ts";
import { dockerEndpoints } from "../../infra/plan/docker/endpoints.ts";
import { objectName } from "../../infra/plan/docker/host-objects.ts";
import { shellLine } from "../../infra/plan/engine/shell-line.ts";
import { counted } from "../../infra/problems.ts";
import { commandRun, containerRun } from "../bench/genai-perf.ts";
import { localRun } from "../bench/genai-perf-local.ts";
import { forwards, remoteEndpoints, sshCommand } from "../connect/forwards.ts";
import { dockerLines, ofStack, removeLeftovers, stackContainers } from "../docker-host/containers.ts";
import { isServing, serviceStatuses } from "../docker-host/service-states.ts";
import { duration } from "../plan/text-table.ts";
import { dockerPreflight } from "../preflight/docker.ts";
import { engineFinding } from "../preflight/docker-facts.ts";
import { hostProbe, sshDestination } from "../preflight/host-probe.ts";
import { pulumiCheck } from "../preflight/programs.ts";
import { type DockerTarget, readDockerTarget } from "../program/targets.ts";
import { knownObjects } from "../stack/state.ts";
import {
  defaultOperations,
  deleteDocuments,
  interactive,
  type Operations,
  type ServiceProgram,
  SHELL,
  type StackSource,
  type StatusReport,
  sayKept,
  statusReport,
} from "./operations.ts";

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
    logs: ({ lines, follow }) =>
      containerPrograms(target(), (container) => [
        ...["logs", "--tail", lines, ...(follow ? ["--follow"] : [])],
        container,
      ]),
    shells: () => containerPrograms(target(), (container) => ["exec", interactive(), container, SHELL]),
    async genaiPerf(request) {
      const { plan } = target();
      if (plan.tier === "cpu") return localRun(plan, request);
      const { model, load } = request;
      const { record, argv } = containerRun(plan, model, load, objectName(stack.name, model));
      const environment = { DOCKER_HOST: plan.host.uri };
      return commandRun(record, shellLine(argv, environment), async () => argv, environment);
    },
    images() {
      const { plan } = target();
      const { needed, inputs, found: images } = planImages(plan);
      const { registry, uri } = plan.host;
      return { target: { needed, options: inputs, images, registry, uri }, engineFinding, aws: null };
    },
    plannedEndpoints: () => dockerEndpoints(target().plan),
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
    // A host that does not answer ends `down` before anything is reported as deleted.
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

/** Existing volumes with documents; the engine store is excluded. */
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

/** A command of the Docker CLI for each container that the host has, by service. */
async function containerPrograms(
  docker: DockerTarget,
  words: (container: string) => readonly string[],
): Promise<ReadonlyMap<string, ServiceProgram>> {
  const services = await servicesOf(docker);
  const environment = { DOCKER_HOST: docker.plan.host.uri };
  return new Map(
    services
      .filter(({ state }) => state !== "MISSING")
      .map(({ name, container }) => [name, { argv: ["docker", ...words(container)], environment }]),
  );
}

async function servicesOf({ name, plan, stack }: DockerTarget) {
  const found = await stackContainers(name, hostProbe(plan.host.uri));
  return serviceStatuses(name, stack, found, Date.now());
}

async function status(docker: DockerTarget): Promise<StatusReport> {
  const { name: stack, plan } = docker;
  const services = await servicesOf(docker);
  const start = `\`npx engine-room start --stack ${stack}\``;
  if (services.every(({ state }) => state === "MISSING"))
    return statusReport(
      [],
      false,
      [],
      [`The stack ${stack} has no containers at ${plan.host.uri}; ${start} brings it up.`],
    );
  const isHealthy = isServing(services);
  const rows = services.map(({ name, container, state, uptimeSeconds, exitCode, restarts, ports }) => {
    const life = [
      ...(uptimeSeconds === undefined ? [] : [`up ${duration(uptimeSeconds)}`]),
      ...(exitCode === undefined ? [] : [`exit code ${exitCode}`]),
      ...(restarts === 0 ? [] : [counted(restarts, "restart")]),
    ];
    return [name, state, life.join(", "), container, Object.values(ports).join(", ")];
  });
  return statusReport(services, isHealthy, rows, [
    !isHealthy && `Some of them differ from the stack file; ${start} fixes that.`,
  ]);
}
