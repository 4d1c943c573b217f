/** Services of a stack in a cluster, and which ports of them are brought to this machine. */
import { clusterEndpoints } from "../../infra/plan/kubernetes/endpoints.ts";
import { type ClusterProbe, clusterProbe, kubectlItems } from "../cluster/kubectl.ts";
import { UserError } from "../errors.ts";
import type { ClusterTarget } from "../program/targets.ts";
import { type ConnectedPart, type ServiceForward, serviceForwards } from "./cluster-forwards.ts";
import { portClaims } from "./forwards.ts";

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

/** The gateway by its Service: its host name may not resolve yet. */
export function serviceEndpoints({ plan }: ClusterTarget) {
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
