/** Stacks in a cluster that a kubeconfig reaches. */

import { pulledImages } from "../../infra/image-inputs.ts";
import { clusterOutputs } from "../../infra/outputs.ts";
import { counted } from "../../infra/problems.ts";
import { jobRun } from "../bench/genai-perf-job.ts";
import { localRun } from "../bench/genai-perf-local.ts";
import { clusterName, clusterProbe, kubectlCommand } from "../cluster/kubectl.ts";
import { changeServers, sleepReport, wakeReport } from "../cluster/sleep.ts";
import { execTargets, isServing, logTargets, workloadStatuses } from "../cluster/workloads.ts";
import {
  type ClaimPort,
  type ConnectedPart,
  clusterForwards,
  kubectlForwards,
  localEndpoints,
  serviceEndpoints,
} from "../connect/forwards.ts";
import { askRegistry, dockerCredentials } from "../images/registry.ts";
import { clusterPreflight } from "../preflight/cluster.ts";
import { ownEngineFinding } from "../preflight/docker-facts.ts";
import { pulumiCheck } from "../preflight/programs.ts";
import { type ClusterTarget, readClusterTarget } from "../program/targets.ts";
import {
  defaultOperations,
  type Forwarding,
  HERE,
  interactive,
  type Operations,
  OWN_ENGINE,
  SHELL,
  type StackSource,
  type StatusReport,
  statusReport,
} from "./operations.ts";

export function operations(source: StackSource): Operations {
  const target = () => readClusterTarget(source.stack);
  return {
    ...defaultOperations(source),
    upCommand: "up",
    logged: "workloads",
    async preflight() {
      const cluster = target();
      const { context } = cluster.stack;
      const ask = askRegistry(dockerCredentials());
      const checks = [
        pulumiCheck("a cluster"),
        ...(await clusterPreflight(cluster, clusterProbe(context), ask)),
      ];
      return { host: clusterName(context), findings: checks.flatMap(({ findings }) => findings), checks };
    },
    status: () => status(target()),
    /** Logs of the workloads of the stack file; kubectl reports missing workloads. */
    async logs({ lines, follow }) {
      const { stack } = target();
      const { context, namespace } = stack;
      const options = ["--namespace", namespace.name, "--tail", lines, ...(follow ? ["--follow"] : [])];
      return new Map(
        [...logTargets(stack)].map(([service, workload]) => [
          service,
          { argv: [...kubectlCommand(context), "logs", ...options, ...workload] },
        ]),
      );
    },
    async shells() {
      const { context, namespace } = target().stack;
      const words = [
        ...kubectlCommand(context),
        "exec",
        "--namespace",
        namespace.name,
        interactive(),
      ] as const;
      return new Map(
        [...execTargets(target().stack)].map(([service, workload]) => [
          service,
          { argv: [...words, workload, "--", SHELL] },
        ]),
      );
    },
    async genaiPerf(request) {
      const cluster = target();
      const { plan, stack } = cluster;
      if (plan.tier === "cpu") return localRun(plan, request);
      return jobRun({ ...cluster, plan }, request.model, request.load, clusterProbe(stack.context));
    },
    images() {
      const { plan } = target();
      const { needed, inputs, found } = pulledImages(plan);
      const { registry } = plan.cluster;
      return {
        target: { needed, options: inputs, images: found, registry, uri: OWN_ENGINE },
        engineFinding: ownEngineFinding,
        aws: null,
      };
    },
    forwarding: (parts, claimPort) => forwarding(target(), parts, claimPort),
    async sleep(print) {
      const cluster = target();
      const { name, stack } = cluster;
      const servers = await changeServers(cluster, clusterProbe(stack.context), "sleep");
      print(sleepReport(name, stack, servers));
      return servers;
    },
    async wake(print) {
      const cluster = target();
      const servers = await changeServers(cluster, clusterProbe(cluster.stack.context), "wake");
      const isComplete = servers.every(({ from }) => from !== null);
      print(wakeReport(cluster.name, servers));
      return { isComplete, servers };
    },
  };
}

async function status({ name, stack }: ClusterTarget): Promise<StatusReport> {
  const services = await workloadStatuses(stack, clusterProbe(stack.context));
  const up = `\`npx engine-room up --stack ${name}\``;
  if (services.every(({ state }) => state === "MISSING")) {
    const where = `the namespace ${stack.namespace.name} of ${clusterName(stack.context)}`;
    return statusReport([], false, [], [`The stack ${name} has nothing in ${where}; ${up} brings it up.`]);
  }
  const isHealthy = isServing(services);
  const sleeping = services.filter(({ state }) => state === "SLEEPING").length;
  const rows = services.map(({ name: service, kind, state, pods, restarts, why }) => {
    const life = [
      ...(pods === null ? [] : [`${pods.ready} of ${pods.wanted} ready`]),
      ...(restarts === 0 ? [] : [counted(restarts, "restart")]),
    ];
    return [service, state, kind, life.join(", "), why ?? ""];
  });
  return statusReport(services, isHealthy, rows, [
    sleeping > 0 &&
      `${counted(sleeping, "server sleeps", "servers sleep")}; \`npx engine-room wake --stack ${name}\` brings ${sleeping === 1 ? "it" : "them"} back.`,
    !isHealthy &&
      `Some of them differ from the stack file; \`npx engine-room logs\` says more, and ${up} creates missing objects.`,
  ]);
}

async function forwarding(
  target: ClusterTarget,
  parts: readonly ConnectedPart[],
  claimPort?: ClaimPort,
): Promise<Forwarding> {
  const { context } = target.stack;
  const addresses = await clusterForwards(target, parts, claimPort);
  return {
    addresses,
    where: "IN THE CLUSTER",
    commands: async () => kubectlForwards(context, addresses),
    endpoints: { ...localEndpoints(serviceEndpoints(target), addresses), ...HERE },
    outputs: async () => clusterOutputs(target.plan, target.stack),
  };
}
