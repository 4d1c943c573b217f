/** The API server's own judgement of a stack: a dry run of all its objects and pods, and reviews of the user's rights. */
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

/** An object as the API takes it. */
interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  /** Without a namespace: of the whole cluster. */
  readonly metadata: { readonly name: string; readonly namespace?: string };
}

/** All objects of a stack but Secrets with values of the stack file, which only `up` reads. */
function objectsOf(stack: KubernetesStack): readonly Manifest[] {
  const found = new Set<Pick<Manifest, "kind" | "metadata">>();
  const visit = (value: unknown) => {
    if (typeof value !== "object" || value === null) return;
    if ("kind" in value && "metadata" in value) found.add(value as Manifest);
    else for (const inner of Object.values(value)) visit(inner);
  };
  visit(stack);
  return [...found].map((object) => ({
    apiVersion: VERSIONS[object.kind as Kind],
    ...object,
    metadata: CLUSTER_WIDE.includes(object.kind)
      ? object.metadata
      : { ...object.metadata, namespace: stack.namespace.name },
  }));
}

/** A pod of each workload, as its controller would make it. */
function podsOf({ builds, servers, databases, prePulls, priorities, namespace }: KubernetesStack) {
  const own = priorities.map(({ metadata }) => metadata.name);
  return [...builds, ...servers, ...databases, ...prePulls].map((workload): Manifest => {
    const { name, pod } = workload;
    const { metadata, spec: planned } = pod.template;
    const { priorityClassName = "", ...rest } = planned ?? {};
    // A class that the stack makes is not there yet.
    const priority = priorityClassName === "" || own.includes(priorityClassName) ? {} : { priorityClassName };
    // The controller of a StatefulSet adds the volumes of its claims, which a dry run does not look for.
    const templates = "statefulSet" in workload ? workload.statefulSet.spec?.volumeClaimTemplates : undefined;
    const claims = (templates ?? []).map((template) => ({
      name: template.metadata?.name,
      persistentVolumeClaim: { claimName: `${template.metadata?.name}-${name}-0` },
    }));
    const made = { ...metadata, name, namespace: namespace.name };
    const spec = { ...rest, ...priority, volumes: [...(rest.volumes ?? []), ...claims] };
    return { apiVersion: "v1", kind: "Pod", metadata: made, ...{ spec } };
  });
}

/** Objects of one call: kubectl asks for them one after the other, and its answer is awaited for 30 s. */
const BATCH = 20;

const APPLY = [
  ...["apply", "--server-side", "--dry-run=server", "--validate=strict", "--force-conflicts"],
  ...["--field-manager=engine-room-preflight", "--output=name", "--filename=-"],
];

/**
 * What the server refuses of a stack's objects: kinds, fields, admission, quotas. What is missing of the user's rights is left to
 * {@link rightsFindings}, which names all verbs.
 *
 * @param hasNamespace - Where a namespace is still to be made, its objects are judged as if they were in `default`, and pods not at all.
 * @param isUp - Pods of the stack run: pods beside them would be counted twice.
 */
export async function refusalFindings(
  stack: KubernetesStack,
  probe: ClusterProbe,
  { hasNamespace, isUp }: { readonly hasNamespace: boolean; readonly isUp: boolean },
): Promise<readonly Finding[]> {
  const isNew = !hasNamespace && stack.namespace.object !== null;
  const all = [...objectsOf(stack), ...(isUp || !hasNamespace ? [] : podsOf(stack))].map((object) =>
    isNew && object.metadata.namespace !== undefined
      ? { ...object, metadata: { ...object.metadata, namespace: "default" } }
      : object,
  );
  const batches = Array.from({ length: Math.ceil(all.length / BATCH) }, (_, index) =>
    all.slice(index * BATCH, (index + 1) * BATCH),
  );
  const answers = await Promise.all(
    batches.map((batch) => probe.kubectl(APPLY, batch.map((one) => JSON.stringify(one)).join("\n"))),
  );
  const findings = new Map<string, Finding>();
  for (const { exitCode, stderr } of answers)
    for (const words of exitCode === 0 ? [] : refusals(stderr)) {
      if (isNew && /exceeded quota|failed quota|violates PodSecurity/.test(words)) continue;
      const finding = refusalFinding(stack, words);
      if (finding !== null) findings.set(finding.what, findings.get(finding.what) ?? finding);
    }
  return [...findings.values()];
}

/** Messages of kubectl about single objects, without its log and the server's warnings. */
function refusals(stderr: string): readonly string[] {
  const lines = stderr.split("\n").filter((line) => !/^([EWI]\d{4} |Warning: |ensure CRDs)/.test(line));
  return lines
    .join("\n")
    .split(/\n(?=Error from server|error: |resource mapping|unable to|The \w+ ")/)
    .map((text) =>
      text
        .replace(/^(error: |Error from server( \(\w+\))?: )/, "")
        .replace(/\s+/g, " ")
        .trim(),
    )
    .filter((text) => text !== "");
}

interface Refusal {
  readonly words: RegExp;
  /** null: it is no refusal of `up`. */
  readonly finding: (stack: KubernetesStack, words: string, match: RegExpExecArray) => Finding | null;
}

const REFUSALS: readonly Refusal[] = [
  { words: /User "[^"]*" cannot/, finding: () => null },
  {
    words: /no matches for kind "(\w+)" in version "([^"]+)"/,
    finding: (_, __, [, kind = "", version = ""]) => missingKind(`${kind} of ${version}`, version),
  },
  {
    words: /namespaces "[^"]+" not found/,
    finding: ({ namespace: { name } }) =>
      problem(
        "namespace",
        `There is no namespace ${name}.`,
        "The stack file names something in it, or has `createNamespace: false`, so that it must be there.",
        `\`kubectl create namespace ${name}\`, and put there what the stack file names.`,
      ),
  },
  {
    words: /PersistentVolumeClaim "([^"]+)" is invalid: (.*)/,
    finding: (_, __, [, name = "", why = ""]) =>
      problem(
        "claim",
        `The claim ${name} is there already, and Kubernetes does not change such a claim.`,
        why,
        `Write in engineStore the values of the claim (\`kubectl get pvc ${name} --output yaml\`); or delete it with all its engines (\`kubectl delete pvc ${name}\`), and the stack makes a new one.`,
      ),
  },
  // `up` replaces them.
  { words: /immutable|updates to statefulset spec|may not be changed/, finding: () => null },
  {
    words: /(exceeded|failed) quota: ([^,:]+)/,
    finding: (_, words, [, , name = ""]) =>
      problem(
        "quota",
        `The quota ${name} refuses pods of the stack.`,
        words,
        "Ask whoever owns the namespace for more, or for a LimitRange with defaults where a limit is missing; or use another namespace.",
      ),
  },
  {
    words: /violates PodSecurity|is forbidden|admission webhook "([^"]+)" denied/,
    finding: (_, words) =>
      problem(
        "admission",
        "Admission of the cluster refuses an object of the stack.",
        words,
        "Ask whoever owns the cluster for an exception, or use another namespace.",
      ),
  },
];

function refusalFinding(stack: KubernetesStack, words: string): Finding | null {
  for (const refusal of REFUSALS) {
    const match = refusal.words.exec(words);
    if (match !== null) return refusal.finding(stack, words, match);
  }
  return problem(
    "objects",
    "The API server refuses an object of the stack.",
    words,
    "Correct the key of the stack file that it comes from; an old cluster that lacks a field must be updated.",
  );
}

/** Who defines kinds and metrics that are not Kubernetes' own, by group. */
const DEFINED_BY: Readonly<Record<string, readonly [why: string, fix: string]>> = {
  "keda.sh": [
    "Autoscaling of the stack asks Prometheus through KEDA.",
    "Install KEDA (https://keda.sh/docs/latest/deploy/).",
  ],
  "external.metrics.k8s.io": [
    "HorizontalPodAutoscalers of the stack read their metrics there: from KEDA's metrics server, or with `autoscaling.mechanism: hpa` from an adapter.",
    "Install all of KEDA, and see that its deployment keda-operator-metrics-apiserver runs; or an adapter such as prometheus-adapter with rules for external metrics.",
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

function missingKind(what: string, version: string): Finding {
  const [why = "An object of the stack is of that kind.", fix = "Install its CustomResourceDefinition."] =
    DEFINED_BY[version.split("/")[0] ?? ""] ?? [];
  return problem("kinds", `The cluster does not know ${what}.`, why, fix);
}

/** APIs that a stack needs and has no object of: metrics of autoscalers, and certificates by an annotation. */
export async function apiFindings(stack: KubernetesStack, probe: ClusterProbe): Promise<readonly Finding[]> {
  const { autoscalers, ingress } = stack;
  const needed = [
    ...(autoscalers.length === 0 ? [] : ["external.metrics.k8s.io/v1beta1"]),
    ...(ingress === null || !isCertified(ingress) ? [] : ["cert-manager.io/v1"]),
  ];
  const findings = needed.map(async (version) => {
    const { exitCode, stderr } = await probe.kubectl(["get", "--raw", `/apis/${version}`]);
    if (exitCode === 0) return [];
    if (/\(NotFound\)/.test(stderr)) return [missingKind(version, version)];
    if (!/\(ServiceUnavailable\)/.test(stderr)) return [];
    const { why, fix } = missingKind(version, version);
    const service = version.split("/").toReversed().join(".");
    return [
      problem(
        "kinds",
        `Nothing answers for ${version}.`,
        `${why} The cluster's server for it is away.`,
        `\`kubectl describe apiservice ${service}\` says why. ${fix}`,
      ),
    ];
  });
  return (await Promise.all(findings)).flat();
}

/** Whether cert-manager is asked for the certificate of an Ingress. */
export function isCertified({ metadata: { annotations = {} } }: ApiObject<"Ingress">): boolean {
  return Object.keys(annotations).some((key) => key.startsWith("cert-manager.io/"));
}

/** A kind, with verbs of it that a user needs. */
interface Right {
  readonly group: string;
  /** Plural, with its part after a slash: `pods/log`. */
  readonly resource: string;
  /** Absent: of the whole cluster. */
  readonly namespace: string | undefined;
  readonly verbs: readonly string[];
}

/** Of the engine that applies a stack: it reads, waits, and changes. */
const VERBS = ["get", "list", "watch", "create", "patch", "delete"];

/** Of commands that look at a stack that is up, or put it to sleep, with those that need it. */
const TOOLS = {
  "pods/log": ["", "get", "`npx engine-room logs` needs it."],
  "pods/portforward": [
    "",
    "create",
    "`npx engine-room connect` and the commands that reach the stack through it need it.",
  ],
  "deployments/scale": ["apps", "patch", "`npx engine-room sleep` and `wake` need it."],
} as const;

/** Of the kinds of its objects. */
function neededRights(stack: KubernetesStack): readonly Right[] {
  const namespace = stack.namespace.name;
  const pods = [...stack.builds, ...stack.servers].map(({ pod }) => pod);
  const makesSecrets = pods.some(({ secretFiles }) =>
    Object.values(secretFiles).some(({ from }) => from !== null),
  );
  const objects = objectsOf(stack).map(({ apiVersion, kind, metadata }) => ({
    group: apiVersion.includes("/") ? (apiVersion.split("/")[0] ?? "") : "",
    resource: plural(kind),
    namespace: metadata.namespace,
  }));
  const kinds = [...objects, ...(makesSecrets ? [{ group: "", resource: "secrets", namespace }] : [])];
  const distinct = new Map(kinds.map((one) => [`${one.resource}.${one.group}`, { ...one, verbs: VERBS }]));
  return [
    ...distinct.values(),
    // Waits look at them.
    { group: "", resource: "pods", namespace, verbs: VERBS.slice(0, 3) },
    ...Object.entries(TOOLS).map(([resource, [group, verb]]) => ({
      group,
      resource,
      namespace,
      verbs: [verb],
    })),
  ];
}

function plural(kind: string): string {
  const name = kind.toLowerCase();
  if (name.endsWith("y")) return `${name.slice(0, -1)}ies`;
  return name.endsWith("s") ? `${name}es` : `${name}s`;
}

/** One finding for each kind, with all verbs that are missing. The server keeps no review: creating one is the question. */
export async function rightsFindings(
  stack: KubernetesStack,
  probe: ClusterProbe,
): Promise<readonly Finding[]> {
  const rights = neededRights(stack);
  const reviews = rights.flatMap(({ verbs, resource: path, group, namespace }) => {
    const [resource, subresource] = path.split("/");
    return verbs.map((verb) => ({
      apiVersion: "authorization.k8s.io/v1",
      kind: "SelfSubjectAccessReview",
      spec: { resourceAttributes: { group, resource, subresource, namespace, verb } },
    }));
  });
  const { exitCode, stdout } = await probe.kubectl(
    ["create", "--filename", "-", "--validate=false", "--output", 'jsonpath={.status.allowed}{"\\n"}'],
    JSON.stringify({ apiVersion: "v1", kind: "List", items: reviews }),
  );
  const answers = stdout.trim().split("\n");
  if (exitCode !== 0 || answers.length !== reviews.length)
    return [
      warning(
        "rights",
        "The server does not say what you may do.",
        "It refused reviews of your own access (SelfSubjectAccessReview), which every user has by default.",
        "Ask whoever owns the cluster for the role system:basic-user.",
      ),
    ];
  return rights.flatMap((right) => {
    const own = answers.splice(0, right.verbs.length);
    const missing = right.verbs.filter((_, index) => own[index] !== "true");
    return missing.length === 0 ? [] : [rightFinding(right, missing)];
  });
}

function rightFinding({ group, resource, namespace }: Right, missing: readonly string[]): Finding {
  const kind = group === "" ? resource : `${resource}.${group}`;
  const where = namespace === undefined ? "the cluster" : `the namespace ${namespace}`;
  const [, , users] = TOOLS[resource as keyof typeof TOOLS] ?? [];
  return (users === undefined ? problem : warning)(
    "rights",
    `You may not ${missing.join(", ")} ${kind} in ${where}.`,
    users ?? "`npx engine-room up` and `down` need it.",
    FIXES[resource] ??
      `Ask whoever owns the cluster for it: a Role with ${kind}, and a RoleBinding to your user${namespace === undefined ? ", of the whole cluster" : ""}.`,
  );
}

const FIXES: Readonly<Record<string, string>> = {
  namespaces:
    "Have the namespace made for you, and set `createNamespace: false`; or ask for the right in the whole cluster.",
  priorityclasses: "Set `priorityClasses: none`, or ask for the right in the whole cluster.",
};
