/** The endpoints of a stack as they are reached from here, wherever it runs. */
import { clusterOutputs } from "../../infra/cluster-outputs.ts";
import type { StackOutputs } from "../../infra/outputs.ts";
import { clusterEndpoints } from "../../infra/plan/kubernetes/endpoints.ts";
import { type ClusterProbe, clusterProbe, kubectlItems } from "../cluster/kubectl.ts";
import { UserError } from "../errors.ts";
import { type ClusterTarget, isInCluster, readClusterTarget } from "../program/cluster-target.ts";
import type { StackReference } from "../program/stack-file.ts";
import { requireOutputs } from "../stack/backend.ts";
import {
  type ConnectedPart,
  forwardCommands,
  localEndpoints,
  type ServiceForward,
  serviceForwards,
} from "./cluster-forwards.ts";
import { portClaims } from "./forwards.ts";
import { startPortForwards } from "./port-forwarder.ts";

/**
 * Does what needs the endpoints of a stack. Those in a cluster are forwarded until it is done, the gateway and what is
 * named; others are what they are.
 *
 * @throws UserError where the stack is not up, or its Services can't be forwarded.
 */
export async function withEndpoints<T>(
  stack: StackReference,
  parts: readonly ConnectedPart[],
  work: (outputs: StackOutputs) => Promise<T>,
): Promise<T> {
  if (!isInCluster(stack)) return work(await requireOutputs(stack));
  const target = readClusterTarget(stack);
  const outputs = clusterOutputs(target.plan, target.stack);
  const all = await clusterForwards(target, parts);
  const forwarder = await startPortForwards(forwardCommands(target.stack.context, all), (line) =>
    process.stderr.write(`${line}\n`),
  );
  // Ctrl-C ends the process, and that the forwards; where the work has its own end for it, it goes first.
  const interrupt = () => {
    if (process.listenerCount("SIGINT") === 1) process.exit(INTERRUPTED_EXIT_CODE);
  };
  process.on("SIGINT", interrupt).on("SIGTERM", interrupt);
  try {
    return await work({
      ...outputs,
      endpoints: { ...localEndpoints(serviceEndpoints(target), all), reach: "host" },
    });
  } finally {
    process.off("SIGINT", interrupt).off("SIGTERM", interrupt);
    await forwarder.stop();
  }
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
