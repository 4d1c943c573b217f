/** What a user must be allowed in a cluster for a stack. Pure. */
import type { KubernetesStack } from "../../infra/plan/kubernetes/kubernetes-stack.ts";
import type { Right } from "./cluster-reading.ts";
import { type Finding, problem, warning } from "./finding.ts";

/** Of the engine that applies a stack: it reads what is there, waits, and changes. */
const VERBS = ["get", "list", "watch", "create", "patch", "delete"] as const;

interface Kind {
  readonly group: string;
  readonly resource: string;
  /** Whether the stack has one. */
  readonly isNeeded: (stack: KubernetesStack) => boolean;
}

const always = () => true;

const IN_NAMESPACE: readonly Kind[] = [
  { group: "", resource: "configmaps", isNeeded: always },
  { group: "", resource: "services", isNeeded: always },
  // Waits look at them, and at what is said of them.
  { group: "", resource: "pods", isNeeded: always },
  {
    group: "",
    resource: "persistentvolumeclaims",
    isNeeded: ({ store }) => store !== null && store.object !== null,
  },
  { group: "", resource: "secrets", isNeeded: (stack) => makesSecrets(stack) },
  { group: "", resource: "resourcequotas", isNeeded: ({ quota }) => quota !== null },
  { group: "apps", resource: "deployments", isNeeded: always },
  { group: "apps", resource: "statefulsets", isNeeded: ({ databases }) => databases.length > 0 },
  { group: "apps", resource: "daemonsets", isNeeded: ({ prePulls }) => prePulls.length > 0 },
  { group: "batch", resource: "jobs", isNeeded: ({ builds }) => builds.length > 0 },
  { group: "policy", resource: "poddisruptionbudgets", isNeeded: always },
  { group: "networking.k8s.io", resource: "networkpolicies", isNeeded: always },
  { group: "networking.k8s.io", resource: "ingresses", isNeeded: ({ ingress }) => ingress !== null },
  { group: "gateway.networking.k8s.io", resource: "httproutes", isNeeded: ({ route }) => route !== null },
  {
    group: "autoscaling",
    resource: "horizontalpodautoscalers",
    isNeeded: ({ autoscalers }) => autoscalers.some(({ mechanism }) => mechanism === "hpa"),
  },
  {
    group: "keda.sh",
    resource: "scaledobjects",
    isNeeded: ({ autoscalers }) => autoscalers.some(({ mechanism }) => mechanism === "keda"),
  },
  {
    group: "monitoring.coreos.com",
    resource: "servicemonitors",
    isNeeded: ({ monitoring }) => monitoring !== null,
  },
  {
    group: "monitoring.coreos.com",
    resource: "prometheusrules",
    isNeeded: ({ monitoring }) => monitoring !== null,
  },
];

const IN_CLUSTER: readonly Kind[] = [
  { group: "", resource: "namespaces", isNeeded: ({ namespace }) => namespace.object !== null },
  {
    group: "scheduling.k8s.io",
    resource: "priorityclasses",
    isNeeded: ({ priorities }) => priorities.length > 0,
  },
];

/** Of commands that look at a stack that is up, or put it to sleep; by their kind, with who needs it. */
const OF_TOOLS = {
  "pods/log": { group: "", verb: "get", users: "`npx engine-room logs` needs it." },
  "pods/portforward": {
    group: "",
    verb: "create",
    users: "`npx engine-room connect` and the commands that reach the stack through it need it.",
  },
  "deployments/scale": { group: "apps", verb: "patch", users: "`npx engine-room sleep` and `wake` need it." },
} as const;

function isTool(resource: string): resource is keyof typeof OF_TOOLS {
  return Object.hasOwn(OF_TOOLS, resource);
}

/** Of all pods of a stack, only to look. */
const READ_ONLY: ReadonlySet<string> = new Set(["pods"]);
const READING: ReadonlySet<string> = new Set(["get", "list", "watch"]);

function makesSecrets({ apiKeys, builds, models, gateway }: KubernetesStack): boolean {
  const pods = [...builds, ...models, gateway].map(({ pod }) => pod);
  return (
    apiKeys !== null ||
    pods.some(({ secretFiles }) => Object.values(secretFiles).some(({ from }) => from !== null))
  );
}

export function neededRights(stack: KubernetesStack): readonly Right[] {
  const namespace = stack.namespace.name;
  const of = (kinds: readonly Kind[], scope: string | null) =>
    kinds
      .filter(({ isNeeded }) => isNeeded(stack))
      .flatMap(({ group, resource }) =>
        VERBS.filter((verb) => !READ_ONLY.has(resource) || READING.has(verb)).map((verb) => ({
          group,
          resource,
          namespace: scope,
          verb,
        })),
      );
  return [
    ...of(IN_NAMESPACE, namespace),
    ...of(IN_CLUSTER, null),
    ...Object.entries(OF_TOOLS).map(([resource, { group, verb }]) => ({ group, resource, verb, namespace })),
  ];
}

/** One finding a kind, with all verbs that are missing. */
export function rightsFindings(missing: readonly Right[] | null): readonly Finding[] {
  if (missing === null)
    return [
      warning(
        "rights",
        "The server does not say what you may do.",
        "It refused reviews of your own access (SelfSubjectAccessReview), which every user has elsewhere.",
        "Ask whoever owns the cluster for the role system:basic-user.",
      ),
    ];
  const kinds = [...new Set(missing.map(kindOf))];
  return kinds.map((kind) => {
    const rights = missing.filter((right) => kindOf(right) === kind);
    const { resource = "", namespace = null } = rights[0] ?? {};
    const report = isTool(resource) ? warning : problem;
    return report(
      "rights",
      `You may not ${rights.map(({ verb }) => verb).join(", ")} ${kind} in ${namespace === null ? "the cluster" : `the namespace ${namespace}`}.`,
      isTool(resource) ? OF_TOOLS[resource].users : "`npx engine-room up` and `down` need it.",
      FIXES[kind] ??
        `Ask whoever owns the cluster for it: a Role with ${kind}, and a RoleBinding to your user${namespace === null ? ", of the whole cluster" : ""}.`,
    );
  });
}

const FIXES: Readonly<Record<string, string>> = {
  namespaces:
    "Have the namespace made for you, and set `createNamespace: false`; or ask for the right in the whole cluster.",
  "priorityclasses.scheduling.k8s.io":
    "Set `priorityClasses: none`, or ask for the right in the whole cluster.",
};

function kindOf({ group, resource }: Right): string {
  return group === "" ? resource : `${resource}.${group}`;
}
