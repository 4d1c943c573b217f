/** The endpoints of a stack as they are reached from here, wherever it runs. */
import { clusterOutputs } from "../../infra/cluster-outputs.ts";
import type { StackOutputs } from "../../infra/outputs.ts";
import { clusterEndpoints } from "../../infra/plan/kubernetes/endpoints.ts";
import { type ClusterProbe, clusterProbe, kubectlItems } from "../cluster/kubectl.ts";
import { UserError } from "../errors.ts";
import { type ClusterTarget, readClusterTarget } from "../program/cluster-target.ts";
import { isOnInstance, readInstanceTarget } from "../program/instance-target.ts";
import type { StackReference } from "../program/stack-file.ts";
import { isInCluster } from "../program/stack-platform.ts";
import { requireOutputs } from "../stack/backend.ts";
import {
  type ConnectedPart,
  forwardCommands,
  localEndpoints,
  type ServiceForward,
  serviceFailure,
  serviceForwards,
} from "./cluster-forwards.ts";
import { portClaims } from "./forwards.ts";
import {
  instanceCommands,
  instanceFailure,
  instanceForwards,
  localInstanceEndpoints,
} from "./instance-forwards.ts";
import { startPortForwards } from "./port-forwarder.ts";

/**
 * Does what needs the endpoints of a stack. Those in a cluster or on EC2 are forwarded until it is done, the gateway and what is
 * named; others are what they are.
 *
 * @throws UserError where the stack is not up, or its Services can't be forwarded.
 */
export async function withEndpoints<T>(
  stack: StackReference,
  parts: readonly ConnectedPart[],
  work: (outputs: StackOutputs) => Promise<T>,
): Promise<T> {
  if (!isInCluster(stack) && !isOnInstance(stack)) return work(await requireOutputs(stack));
  const { outputs, forwarder } = await (isOnInstance(stack) ? onInstance : inCluster)(stack, parts);
  // Ctrl-C ends the process, and that the forwards; where the work has its own end for it, it goes first.
  const interrupt = () => {
    if (process.listenerCount("SIGINT") === 1) process.exit(INTERRUPTED_EXIT_CODE);
  };
  process.on("SIGINT", interrupt).on("SIGTERM", interrupt);
  try {
    return await work(outputs);
  } finally {
    process.off("SIGINT", interrupt).off("SIGTERM", interrupt);
    await forwarder.stop();
  }
}

/** Of what is forwarded. */
const HERE = { gatewayReach: "host", reach: "host" } as const;

interface Connected {
  /** With endpoints of this machine. */
  readonly outputs: StackOutputs;
  readonly forwarder: Awaited<ReturnType<typeof startPortForwards>>;
}

async function inCluster(stack: StackReference, parts: readonly ConnectedPart[]): Promise<Connected> {
  const target = readClusterTarget(stack);
  const all = await clusterForwards(target, parts);
  return {
    outputs: {
      ...clusterOutputs(target.plan, target.stack),
      endpoints: { ...localEndpoints(serviceEndpoints(target), all), ...HERE },
    },
    forwarder: await startPortForwards(
      forwardCommands(target.stack.context, all),
      report,
      serviceFailure(target.stack.context),
    ),
  };
}

/** The load balancer of the machine may answer its own network alone; a session reaches the gateway in any case. */
async function onInstance(stack: StackReference, parts: readonly ConnectedPart[]): Promise<Connected> {
  const target = readInstanceTarget(stack);
  const outputs = await requireOutputs(stack);
  const all = await instanceForwards(target, parts);
  return {
    outputs: {
      ...outputs,
      endpoints: { ...localInstanceEndpoints(target.stack.endpoints, all), ...HERE },
    },
    forwarder: await startPortForwards(await instanceCommands(target, all), report, instanceFailure),
  };
}

function report(line: string): void {
  process.stderr.write(`${line}\n`);
}

/** As shells report a process that Ctrl-C ended. */
const INTERRUPTED_EXIT_CODE = 130;

/** What is brought here of a stack in a cluster, with free ports of this machine. */
export async function clusterForwards(
  target: ClusterTarget,
  parts: readonly ConnectedPart[],
): Promise<readonly ServiceForward[]> {
  const probe = clusterProbe(target.stack.context);
  const grafana = parts.includes("grafana") ? await grafanaAddress(target, probe) : null;
  return serviceForwards(
    { endpoints: serviceEndpoints(target), parts: new Set(parts), grafana },
    portClaims(),
  );
}

/** The gateway by its Service, for its host name may be known to nobody yet. */
function serviceEndpoints({ plan }: ClusterTarget) {
  return plan.tier === "cpu"
    ? clusterEndpoints({ ...plan, cluster: { ...plan.cluster, ingress: null } })
    : clusterEndpoints({ ...plan, cluster: { ...plan.cluster, ingress: null } });
}

interface ApiService {
  readonly metadata: { readonly name: string };
  readonly spec: { readonly ports?: readonly { readonly name?: string; readonly port: number }[] };
}

/** By the label of its Helm chart, in the namespace of Prometheus. @throws UserError where there is none. */
async function grafanaAddress({ plan }: ClusterTarget, probe: ClusterProbe): Promise<string> {
  const { monitoringNamespace } = plan.cluster;
  const selector = "app.kubernetes.io/name=grafana";
  const [service] = await kubectlItems<ApiService>(probe, [
    ...["services", "--namespace", monitoringNamespace, "--selector", selector],
  ]);
  const [port] = service?.spec.ports ?? [];
  if (service === undefined || port === undefined)
    throw new UserError(
      `The namespace ${monitoringNamespace} has no Service with the label ${selector}; \`monitoringNamespace\` of the stack file says where Grafana is.`,
    );
  return `http://${service.metadata.name}.${monitoringNamespace}.svc:${port.port}`;
}
