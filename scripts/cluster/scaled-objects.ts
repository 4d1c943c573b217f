/**
 * How a server that KEDA owns is kept at a number: with the annotation KEDA stops its loop, removes its
 * HorizontalPodAutoscaler, and scales to that number (KEDA 2.21: controllers/keda/scaledobject_controller.go; documented at
 * https://keda.sh/docs/latest/concepts/scaling-deployments/#pausing-autoscaling). `autoscaling.keda.sh/paused` is another
 * one, which keeps the number that is there.
 */
import type { KubernetesStack } from "../../infra/plan/kubernetes/kubernetes-stack.ts";
import { type ClusterProbe, kubectlItems } from "./kubectl.ts";

export const SCALED_OBJECTS = "scaledobjects.keda.sh";
export const PAUSED_REPLICAS = "autoscaling.keda.sh/paused-replicas";

interface ScaledObject {
  readonly metadata: {
    readonly name: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
}

/** Value of the annotation by name of the ScaledObject; null where one has none. */
export type PausedReplicas = ReadonlyMap<string, string | null>;

/**
 * Of a stack's own ScaledObjects; none where KEDA is missing. Asks nothing where the stack plans none.
 *
 * @param own - Words of kubectl that select the stack's objects.
 * @throws UserError where the user may not look.
 */
export async function readPausedReplicas(
  { autoscalers }: Pick<KubernetesStack, "autoscalers">,
  probe: ClusterProbe,
  own: readonly string[],
): Promise<PausedReplicas> {
  if (!autoscalers.some(({ mechanism }) => mechanism === "keda")) return new Map();
  const found = await kubectlItems<ScaledObject>(probe, [SCALED_OBJECTS, ...own]);
  return new Map(
    found.map(({ metadata: { name, annotations = {} } }) => [name, annotations[PAUSED_REPLICAS] ?? null]),
  );
}
