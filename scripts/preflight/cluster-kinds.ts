/** Kinds that a cluster has only where somebody installed them. Pure. */
import type { KubernetesStack } from "../../infra/plan/kubernetes/kubernetes-stack.ts";
import type { ApiObject } from "../../infra/plan/kubernetes/objects.ts";
import { type Finding, problem } from "./finding.ts";

/**
 * Kinds by group and version, of those that were asked about: empty where the cluster knows none, null where it names a
 * server for them that gives no answer. What the user may not ask is left out.
 */
export type KindReading = ReadonlyMap<string, ReadonlySet<string> | null>;

interface NeededKind {
  readonly groupVersion: string;
  /** null: the group has objects of no kind, but answers. */
  readonly kind: string | null;
  readonly isNeeded: (stack: KubernetesStack) => boolean;
  readonly why: string;
  readonly fix: string;
}

const scaledBy = (mechanism: "hpa" | "keda") => (stack: KubernetesStack) =>
  stack.autoscalers.some((one) => one.mechanism === mechanism);
const isMonitored = ({ monitoring }: KubernetesStack) => monitoring !== null;

const OPERATOR = {
  groupVersion: "monitoring.coreos.com/v1",
  isNeeded: isMonitored,
  fix: "Install the operator with its CRDs (https://prometheus-operator.dev), or set `monitoring: none`.",
};

const EXTERNAL_METRICS = { groupVersion: "external.metrics.k8s.io/v1beta1", kind: null };

const KINDS: readonly NeededKind[] = [
  {
    groupVersion: "keda.sh/v1alpha1",
    kind: "ScaledObject",
    isNeeded: scaledBy("keda"),
    why: "Autoscaling of the stack asks Prometheus through KEDA.",
    fix: "Install KEDA (https://keda.sh/docs/latest/deploy/).",
  },
  {
    ...EXTERNAL_METRICS,
    isNeeded: scaledBy("keda"),
    why: "HorizontalPodAutoscalers that KEDA makes ask its metrics server, which is registered under this name.",
    fix: "Install all of KEDA, and see that its deployment keda-operator-metrics-apiserver runs.",
  },
  {
    ...EXTERNAL_METRICS,
    isNeeded: scaledBy("hpa"),
    why: "With `autoscaling.mechanism: hpa` HorizontalPodAutoscalers ask an adapter of metrics, which is registered under this name.",
    fix: "Install one, such as prometheus-adapter with rules for external metrics, or use `mechanism: keda`.",
  },
  { ...OPERATOR, kind: "ServiceMonitor", why: "It tells Prometheus which Services to read." },
  { ...OPERATOR, kind: "PrometheusRule", why: "It holds the stack's alerts." },
  {
    groupVersion: "gateway.networking.k8s.io/v1",
    kind: "HTTPRoute",
    isNeeded: ({ route }) => route !== null,
    why: "gateway.route makes one, for a Gateway that is there.",
    fix: "Install the Gateway API's CRDs (https://gateway-api.sigs.k8s.io), or leave out gateway.route: an Ingress is made then.",
  },
  {
    groupVersion: "cert-manager.io/v1",
    kind: "Certificate",
    isNeeded: ({ ingress }) => ingress !== null && isCertified(ingress),
    why: "gateway.tls names an issuer of cert-manager, which is asked for the certificate of the host name.",
    fix: "Install it (https://cert-manager.io/docs/installation/), or name a Secret in gateway.tls.secretName.",
  },
];

/** Groups with versions that a stack has to be asked about. */
export function askedGroups(stack: KubernetesStack): readonly string[] {
  return [
    ...new Set(KINDS.filter(({ isNeeded }) => isNeeded(stack)).map(({ groupVersion }) => groupVersion)),
  ];
}

export function kindFindings(stack: KubernetesStack, reading: KindReading): readonly Finding[] {
  return KINDS.filter(({ isNeeded }) => isNeeded(stack)).flatMap(({ groupVersion, kind, why, fix }) => {
    const kinds = reading.get(groupVersion);
    if (kinds === undefined) return [];
    if (kinds === null)
      return [
        problem(
          "kinds",
          `Nothing answers for ${groupVersion}.`,
          `${why} The server that the cluster has for it is away.`,
          `\`kubectl describe apiservice ${apiService(groupVersion)}\` says why. ${fix}`,
        ),
      ];
    const isThere = kind === null ? kinds.size > 0 : kinds.has(kind);
    if (isThere) return [];
    const what = kind === null ? groupVersion : `${kind} of ${groupVersion}`;
    return [problem("kinds", `The cluster does not know ${what}.`, why, fix)];
  });
}

function apiService(groupVersion: string): string {
  const [group = "", version = ""] = groupVersion.split("/");
  return `${version}.${group}`;
}

/** Whether cert-manager is asked for the certificate of an Ingress. */
export function isCertified({ metadata: { annotations = {} } }: ApiObject<"Ingress">): boolean {
  return Object.keys(annotations).some((key) => key.startsWith("cert-manager.io/"));
}
