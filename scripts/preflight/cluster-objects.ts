/** The API server's own judgement of a stack: a dry run of all its objects and pods, and reviews of rights that it leaves out. */
import type { KubernetesStack } from "../../infra/plan/kubernetes/kubernetes-stack.ts";
import type { ApiObject, Kind } from "../../infra/plan/kubernetes/objects.ts";
import type { ClusterProbe } from "../cluster/kubectl.ts";
import { type Finding, problem, warning } from "./finding.ts";

/** Objects of the plan have no version: Pulumi's classes add it. */
const VERSIONS: Readonly<Record<Kind, string>> = {
  ConfigMap: "v1",
  DaemonSet: "apps/v1",
  Deployment: "apps/v1",
  HorizontalPodAutoscaler: "autoscaling/v2",
  Ingress: "networking.k8s.io/v1",
  Job: "batch/v1",
  Namespace: "v1",
  NetworkPolicy: "networking.k8s.io/v1",
  PersistentVolumeClaim: "v1",
  PodDisruptionBudget: "policy/v1",
  PriorityClass: "scheduling.k8s.io/v1",
  ResourceQuota: "v1",
  Secret: "v1",
  Service: "v1",
  ServiceAccount: "v1",
  StatefulSet: "apps/v1",
};
const CLUSTER_WIDE: readonly string[] = ["Namespace", "PriorityClass"] satisfies readonly Kind[];

interface Manifest {
  readonly apiVersion?: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
}

/** All objects of a stack; Secrets with values of the stack file, which only `up` reads, are empty. */
function objectsOf(stack: KubernetesStack): readonly Manifest[] {
  const found = new Set<Manifest>();
  const visit = (value: unknown) => {
    if (typeof value !== "object" || value === null) return;
    if ("kind" in value && "metadata" in value) found.add(value as Manifest);
    else for (const inner of Object.values(value)) visit(inner);
  };
  visit(stack);
  const makesSecrets = [...stack.builds, ...stack.servers].some(({ pod }) =>
    Object.values(pod.secretFiles).some(({ from }) => from !== null),
  );
  return [
    ...found,
    ...(makesSecrets ? [{ kind: "Secret", metadata: { name: "engine-room-preflight" } }] : []),
  ];
}

/** A pod of each workload, as its controller would create it. */
function podsOf({ builds, servers, databases, prePulls, priorities }: KubernetesStack): readonly Manifest[] {
  const own = priorities.map(({ metadata }) => metadata.name);
  return [...builds, ...servers, ...databases, ...prePulls].map((workload) => {
    const { name, pod } = workload;
    const { metadata, spec: planned } = pod.template;
    const { priorityClassName = "", ...rest } = planned ?? {};
    // A class of the stack does not exist yet.
    const priority = priorityClassName === "" || own.includes(priorityClassName) ? {} : { priorityClassName };
    // The controller of a StatefulSet adds the volumes of its claims, which a dry run does not check.
    const templates = "statefulSet" in workload ? workload.statefulSet.spec?.volumeClaimTemplates : undefined;
    const claims = (templates ?? []).map((template) => ({
      name: template.metadata?.name,
      persistentVolumeClaim: { claimName: `${template.metadata?.name}-${name}-0` },
    }));
    const spec = { ...rest, ...priority, volumes: [...(rest.volumes ?? []), ...claims] };
    return { apiVersion: "v1", kind: "Pod", metadata: { ...metadata, name }, ...{ spec } };
  });
}

/** Objects of one call: kubectl asks for them one after the other, and its answer is awaited for 30 s. */
const BATCH = 20;

const APPLY = [
  ...["apply", "--server-side", "--dry-run=server", "--validate=strict", "--force-conflicts"],
  ...["--field-manager=engine-room-preflight", "--output=name", "--filename=-"],
];

/**
 * Refusals of a stack's objects by the server: kinds, fields, admission, quotas, rights.
 *
 * @param hasNamespace - The objects of a namespace that does not exist yet are judged as if they were in `default`, except pods.
 * @param isUp - Pods of the stack run: the dry run would count them twice.
 */
export async function refusalFindings(
  stack: KubernetesStack,
  probe: ClusterProbe,
  { hasNamespace, isUp }: { readonly hasNamespace: boolean; readonly isUp: boolean },
): Promise<readonly Finding[]> {
  const isNew = !hasNamespace && stack.namespace.object !== null;
  const namespace = isNew ? "default" : stack.namespace.name;
  const all = [...objectsOf(stack), ...(isUp || !hasNamespace ? [] : podsOf(stack))].map(
    ({ apiVersion, kind, metadata, ...rest }) =>
      JSON.stringify({
        apiVersion: apiVersion ?? VERSIONS[kind as Kind],
        kind,
        metadata: CLUSTER_WIDE.includes(kind) ? metadata : { ...metadata, namespace },
        ...rest,
      }),
  );
  const batches = Array.from({ length: Math.ceil(all.length / BATCH) }, (_, index) =>
    all.slice(index * BATCH, (index + 1) * BATCH),
  );
  const answers = await Promise.all(batches.map((batch) => probe.kubectl(APPLY, batch.join("\n"))));
  const findings = answers
    .flatMap(({ exitCode, stderr }) => (exitCode === 0 ? [] : refusals(stderr)))
    // Refusals due to the namespace `default`.
    .filter((words) => !isNew || !/exceeded quota|failed quota|violates PodSecurity/.test(words))
    .flatMap((words) => refusalFinding(words) ?? []);
  return [...new Map(findings.map((finding) => [finding.what, finding])).values()];
}

/** Messages of kubectl about single objects, without its log and the server's warnings. */
function refusals(stderr: string): readonly string[] {
  return stderr
    .replace(/^([EWI]\d{4} |Warning: |ensure CRDs).*\n?/gm, "")
    .split(/\n(?=Error from server|error: |resource mapping|unable to|The \w+ ")/)
    .map((text) => text.replace(/^(error: |Error from server( \(\w+\))?: )/, ""))
    .map((text) => text.replace(/\s+/g, " ").trim())
    .filter((text) => text !== "");
}

interface Refusal {
  readonly words: RegExp;
  readonly check: string;
  /** null when `up` is not refused. */
  readonly what: ((match: readonly string[]) => string) | null;
  readonly fix: string;
}

/** Fix for limits of the cluster's owner. */
const ASK_OWNER = "Ask the owner of the cluster for it, or use another namespace.";

/** The first that fits. */
const REFUSALS: readonly Refusal[] = [
  {
    words: /User "[^"]*" cannot (\S+) resource "([^"]+)"(?: in API group "([^"]*)")?/,
    check: "rights",
    what: ([, verb, resource, group = ""]) =>
      `You may not ${verb} ${resource}${group === "" ? "" : `.${group}`}.`,
    fix: "Ask the owner of the cluster for the right; `createNamespace: false` and `priorityClasses: none` avoid cluster-wide objects.",
  },
  {
    words: /no matches for kind "(\w+)" in version "([^"]+)"/,
    check: "kinds",
    what: ([, kind, version]) => `The cluster does not know ${kind} of ${version}.`,
    fix: "Install its CustomResourceDefinition.",
  },
  {
    words: /namespaces "([^"]+)" not found/,
    check: "namespace",
    what: ([, name]) => `There is no namespace ${name}.`,
    fix: "Make it with `kubectl create namespace`, and in it what the stack file names; or remove `createNamespace: false`.",
  },
  {
    words: /PersistentVolumeClaim "([^"]+)" is invalid/,
    check: "claim",
    what: ([, name]) => `The claim ${name} already exists, and Kubernetes does not change such a claim.`,
    fix: "Write in engineStore the values that `kubectl get pvc --output yaml` shows; or delete the claim with all its engines, and the stack creates another claim.",
  },
  // `up` replaces them.
  {
    words: /immutable|updates to statefulset spec|may not be changed/,
    check: "objects",
    what: null,
    fix: "",
  },
  {
    words: /(?:exceeded|failed) quota: ([^,:]+)/,
    check: "quota",
    what: ([, name]) => `The quota ${name} refuses pods of the stack.`,
    fix: `${ASK_OWNER} If a limit is missing, a LimitRange sets it.`,
  },
  {
    words: /violates PodSecurity|is forbidden|admission webhook "([^"]+)" denied/,
    check: "admission",
    what: () => "Admission of the cluster refuses an object of the stack.",
    fix: ASK_OWNER,
  },
  {
    words: /^/,
    check: "objects",
    what: () => "The API server refuses an object of the stack.",
    fix: "Correct the key of the stack file that it comes from; an old cluster that lacks a field must be updated.",
  },
];

function refusalFinding(words: string): Finding | null {
  for (const { words: pattern, check, what, fix } of REFUSALS) {
    const match = pattern.exec(words);
    if (match === null) continue;
    if (what === null) return null;
    const [why = words, how = fix] = check === "kinds" ? (definedBy(match[2] ?? "") ?? []) : [];
    return problem(check, what(match), why, how);
  }
  return null;
}

/** Programs that define kinds and metrics other than Kubernetes' own, by group. */
const DEFINED_BY: Readonly<Record<string, readonly [why: string, fix: string]>> = {
  "keda.sh": [
    "Autoscaling of the stack asks Prometheus through KEDA.",
    "Install KEDA (https://keda.sh/docs/latest/deploy/).",
  ],
  "external.metrics.k8s.io": [
    "HorizontalPodAutoscalers of the stack read their metrics there.",
    "Install all of KEDA with its deployment keda-operator-metrics-apiserver, or, with `autoscaling.mechanism: hpa`, an adapter such as prometheus-adapter with rules for external metrics.",
  ],
  "monitoring.coreos.com": [
    "Prometheus is told by it which Services to read, and the stack's alerts.",
    "Install the operator with its CRDs (https://prometheus-operator.dev), or set `monitoring: none`.",
  ],
  "gateway.networking.k8s.io": [
    "gateway.route makes one, for an existing Gateway.",
    "Install the Gateway API's CRDs (https://gateway-api.sigs.k8s.io), or leave out gateway.route: an Ingress is made then.",
  ],
  "cert-manager.io": [
    "gateway.tls names an issuer of cert-manager, which is asked for the certificate of the host name.",
    "Install it (https://cert-manager.io/docs/installation/), or name a Secret in gateway.tls.secretName.",
  ],
};

function definedBy(version: string): readonly [why: string, fix: string] | undefined {
  return DEFINED_BY[version.split("/")[0] ?? ""];
}

/** APIs that a stack needs without an object of them: metrics of autoscalers, and certificates by an annotation. */
export async function apiFindings(stack: KubernetesStack, probe: ClusterProbe): Promise<readonly Finding[]> {
  const { autoscalers, ingress } = stack;
  const needed = [
    ...(autoscalers.length === 0 ? [] : ["external.metrics.k8s.io/v1beta1"]),
    ...(ingress === null || !isCertified(ingress) ? [] : ["cert-manager.io/v1"]),
  ];
  const findings = needed.map(async (version) => {
    const { exitCode, stderr } = await probe.kubectl(["get", "--raw", `/apis/${version}`]);
    const [why = "", fix = ""] = definedBy(version) ?? [];
    if (exitCode !== 0 && stderr.includes("(NotFound)"))
      return [problem("kinds", `The cluster does not know ${version}.`, why, fix)];
    if (exitCode === 0 || !stderr.includes("(ServiceUnavailable)")) return [];
    return [
      problem(
        "kinds",
        `Nothing answers for ${version}.`,
        why,
        `\`kubectl get apiservices\` shows the reason. ${fix}`,
      ),
    ];
  });
  return (await Promise.all(findings)).flat();
}

/** Whether the Ingress asks cert-manager for its certificate. */
export function isCertified({ metadata: { annotations = {} } }: ApiObject<"Ingress">): boolean {
  return Object.keys(annotations).some((key) => key.startsWith("cert-manager.io/"));
}

/** Rights that the dry run does not ask for: group, resource, verb. */
const RIGHTS = [
  ["", "pods", "watch"],
  ["", "pods/log", "get"],
  ["", "pods/portforward", "create"],
  ["apps", "deployments", "delete"],
  ["apps", "deployments/scale", "patch"],
] as const;

/** As `kubectl auth can-i` asks, in one call: the server keeps no review. */
export async function rightsFindings(
  { namespace: { name: namespace } }: KubernetesStack,
  probe: ClusterProbe,
): Promise<readonly Finding[]> {
  const items = RIGHTS.map(([group, path, verb]) => {
    const [resource, subresource] = path.split("/");
    return {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SelfSubjectAccessReview",
      spec: { resourceAttributes: { group, resource, subresource, namespace, verb } },
    };
  });
  const { stdout } = await probe.kubectl(
    ["create", "--filename", "-", "--validate=false", "--output", 'jsonpath={.status.allowed}{"\\n"}'],
    JSON.stringify({ apiVersion: "v1", kind: "List", items }),
  );
  const answers = stdout.split("\n");
  const missing = RIGHTS.filter((_, index) => answers[index] === "false");
  if (missing.length === 0) return [];
  const words = missing.map(([group, path, verb]) => `${verb} ${path}${group === "" ? "" : `.${group}`}`);
  return [
    warning(
      "rights",
      `You may not ${words.join(", ")} in the namespace ${namespace}.`,
      "`npx engine-room up` watches pods, `down` deletes, and logs, connect, sleep and wake need the others.",
      "Ask the owner of the cluster for a Role with these, and a RoleBinding to your user.",
    ),
  ];
}
