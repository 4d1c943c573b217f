/**
 * Checks of a cluster for a stack. Its API server judges the stack's objects in a dry run; these checks are for the rest: machines,
 * storage, Secrets of others, images. Nothing is changed.
 */
import type { types } from "@pulumi/kubernetes";
import type { KubernetesStack } from "../../infra/plan/kubernetes/kubernetes-stack.ts";
import { type ClusterProbe, type Found, noAnswerFinding } from "../cluster/kubectl.ts";
import type { AskRegistry } from "../images/registry.ts";
import type { ClusterTarget } from "../program/targets.ts";
import { isOfStack, machineFindings, quotaFindings } from "./cluster-machines.ts";
import { apiFindings, isCertified, refusalFindings, rightsFindings } from "./cluster-objects.ts";
import { type CheckResult, type Finding, problem, warning } from "./finding.ts";
import { clusterImageFindings } from "./images.ts";

type ClassObject = Found<types.input.storage.v1.StorageClass | types.input.networking.v1.IngressClass>;

/**
 * @param ask - null for a stack on AWS, whose machines, volumes and images are its own, and created by `up`.
 * @returns All checks; if the API server does not answer, only the finding about it.
 */
export async function clusterPreflight(
  target: ClusterTarget,
  probe: ClusterProbe,
  ask: AskRegistry | null,
): Promise<readonly CheckResult[]> {
  const { stack } = target;
  const version = await probe.kubectl(["get", "--raw", "/version"]);
  const silence = noAnswerFinding(probe.context, version);
  if (silence !== null) return [{ looksAt: "API server", findings: [silence] }];
  const own = ["--namespace", stack.namespace.name];
  const running = ["--all-namespaces", "--field-selector", "status.phase!=Succeeded,status.phase!=Failed"];
  // Limited to three at a time: each is a process, and many clusters start a login program for each.
  const [namespaces, nodes, pods] = await Promise.all([
    list<types.input.core.v1.Namespace>(probe, "namespace", stack.namespace.name, "--ignore-not-found"),
    list<types.input.core.v1.Node>(probe, "nodes"),
    list<types.input.core.v1.Pod>(probe, "pods", ...running),
  ]);
  const [storageClasses, ingressClasses, claims, quotas] = await Promise.all([
    list<types.input.storage.v1.StorageClass>(probe, "storageclasses.storage.k8s.io"),
    list<types.input.networking.v1.IngressClass>(probe, "ingressclasses.networking.k8s.io"),
    list<types.input.core.v1.PersistentVolumeClaim>(probe, "persistentvolumeclaims", ...own),
    list<types.input.core.v1.ResourceQuota>(probe, "resourcequotas", ...own),
  ]);
  const state = {
    // The server's refusals are enough for a namespace that the user may not see.
    hasNamespace: namespaces === null || namespaces.length > 0,
    isUp: pods?.some(isOfStack(stack)) ?? false,
  };
  const [refusals, rights, apis] = await Promise.all([
    refusalFindings(stack, probe, state),
    rightsFindings(stack, probe),
    apiFindings(stack, probe),
  ]);
  const isQuotaRefused = state.isUp || refusals.some(({ check }) => check === "quota");
  const claimNames = claims?.map(({ metadata }) => metadata.name) ?? null;
  const results: readonly (readonly [looksAt: string, findings: readonly Finding[]])[] = [
    ["objects, as the API server judges them", refusals],
    ["metrics and certificates of others", apis],
    ["your rights", rights],
    ["namespace", namespaceFindings(target, namespaces?.[0])],
    ["quotas", isQuotaRefused ? [] : quotaFindings(stack, quotas ?? [])],
    ["Secrets", state.hasNamespace ? await secretFindings(stack, probe) : []],
  ];
  const others: typeof results =
    ask === null
      ? []
      : [
          ["engine store", await storeFindings(stack, probe, { claimNames, ...state })],
          [
            "classes of volumes and Ingresses",
            classFindings(stack, { claimNames, storageClasses, ingressClasses }),
          ],
          ["what may be listed", nodes !== null && pods !== null ? [] : [notListed(nodes === null)]],
          ["machines: GPUs, drivers, room", nodes === null ? [] : machineFindings(target, nodes, pods)],
          ["images and registries", await clusterImageFindings(target, ask)],
        ];
  return [...results, ...others].map(([looksAt, findings]) => ({ looksAt, findings }));
}

/** Objects of a kind, or the object of a name; null when the user may not see them. */
async function list<T>(
  probe: ClusterProbe,
  ...words: readonly string[]
): Promise<readonly Found<T>[] | null> {
  const { exitCode, stdout } = await probe.kubectl(["get", ...words, "--output", "json"]);
  if (exitCode !== 0) return null;
  if (stdout.trim() === "") return [];
  const answer = JSON.parse(stdout) as Found<T> | { readonly items: readonly Found<T>[] };
  return "items" in answer ? answer.items : [answer];
}

function notListed(isNodes: boolean): Finding {
  return warning(
    "machines",
    `You may not list ${isNodes ? "nodes" : "pods of all namespaces"}.`,
    isNodes ? "So machines, GPUs and drivers are not checked." : "So every GPU counts as free.",
    "Ask the owner of the cluster to run preflight, or for the ClusterRole view.",
  );
}

/** Label of all objects of a stack. */
const STACK_LABEL = "app.kubernetes.io/instance";

/** `up` takes over an existing namespace of the name, and gives it labels and a quota. */
function namespaceFindings(
  { stack: { namespace }, name: stackName }: ClusterTarget,
  existing: Found<types.input.core.v1.Namespace> | undefined,
): readonly Finding[] {
  const owner = existing?.metadata.labels?.[STACK_LABEL];
  // A namespace that an earlier `up` of the same stack created is its own.
  if (existing === undefined || namespace.object === null) return [];
  if (owner === namespace.object.metadata.labels[STACK_LABEL]) return [];
  return [
    problem(
      "namespace",
      `The namespace ${namespace.name} already exists, and the stack ${stackName} did not create it.`,
      `${owner === undefined ? "Its owner is not known" : `The stack ${owner} has made it`}, and it would get this stack's Pod Security labels and quota.`,
      "Name another one in `namespace`; or write `createNamespace: false`, which leaves it as it is.",
    ),
  ];
}

/** Keys of Secrets that the stack file names, by the name of the Secret, with the reason. */
function namedSecrets({ builds, servers, imagePullSecrets, ingress, apiKeys }: KubernetesStack) {
  const mounted = [...builds, ...servers]
    .flatMap(({ pod }) => Object.values(pod.secretFiles))
    .filter(({ name, from }) => from === null && name !== apiKeys?.metadata.name);
  const tls = ingress === null || isCertified(ingress) ? undefined : ingress.spec?.tls?.[0]?.secretName;
  const all = [
    ...mounted.map(({ name, key }) => [name, key, "Pods that mount it wait until it exists."] as const),
    ...imagePullSecrets.map((name) => {
      const why = "images.pullSecrets names it; without it images of a private registry can't be pulled.";
      return [name, ".dockerconfigjson", why] as const;
    }),
    ...(tls === undefined ? [] : [[tls, "tls.crt", "It is the certificate of gateway.hostname."] as const]),
  ];
  return new Map(all.map((secret) => [`${secret[0]} ${secret[1]}`, secret])).values();
}

async function secretFindings(stack: KubernetesStack, probe: ClusterProbe): Promise<readonly Finding[]> {
  const namespace = stack.namespace.name;
  const findings = [...namedSecrets(stack)].map(async ([name, key, why]) => {
    // Reads only names of keys: values stay in kubectl.
    const { exitCode, stdout } = await probe.kubectl([
      ...["get", "secret", name, "--namespace", namespace, "--ignore-not-found"],
      ...["--output", 'go-template={{range $key, $_ := .data}}{{$key}}{{"\\n"}}{{end}}'],
    ]);
    const keys = stdout.split("\n").filter((one) => one !== "");
    if (exitCode !== 0 || keys.includes(key)) return [];
    const what =
      keys.length === 0
        ? `There is no Secret ${name} in the namespace ${namespace}.`
        : `The Secret ${name} has no key ${key}; it has ${keys.join(", ")}.`;
    const fix = `Make it with the key ${key}: \`kubectl create secret --namespace ${namespace}\`, of the kind docker-registry or tls for registries and certificates, else generic.`;
    return [problem("secrets", what, why, fix)];
  });
  return (await Promise.all(findings)).flat();
}

/** A claim or a volume of the stack file; the dry run judges a claim that an earlier stack left. */
async function storeFindings(
  { store, namespace }: KubernetesStack,
  probe: ClusterProbe,
  {
    claimNames,
    hasNamespace,
  }: { readonly claimNames: readonly string[] | null; readonly hasNamespace: boolean },
): Promise<readonly Finding[]> {
  if (store === null || claimNames?.includes(store.claim) === true) return [];
  if (store.object === null && (!hasNamespace || claimNames === null)) return [];
  if (store.object === null)
    return [
      problem(
        "claim",
        `There is no claim ${store.claim}.`,
        `engineStore.existingClaim names it; the namespace has ${claimNames?.join(", ") || "none"}.`,
        "Make it, or name a class in engineStore.storageClass, and the stack makes one.",
      ),
    ];
  const { volumeName: name, storageClassName: wanted = "" } = store.object.spec ?? {};
  if (name === undefined) return [];
  const volumes = await list<types.input.core.v1.PersistentVolume>(
    probe,
    ...["persistentvolume", name, "--ignore-not-found"],
  );
  if (volumes === null) return [];
  const [volume] = volumes;
  const { storageClassName = "", claimRef } = volume?.spec ?? {};
  const phase = volume?.status?.phase;
  if (phase === "Available" && storageClassName === wanted) return [];
  // Without the right to list claims, the stack's own claim is recognized here.
  if (phase === "Bound" && claimRef?.namespace === namespace.name && claimRef.name === store.claim) return [];
  const claim = claimRef === undefined ? "" : ` of the claim ${claimRef.namespace}/${claimRef.name}`;
  return [
    problem(
      "volume",
      volume === undefined
        ? `There is no volume ${name}.`
        : `The volume ${name} can't be bound to the stack's claim.`,
      volume === undefined
        ? "engineStore.existingVolume names it."
        : `It is ${phase}${claim}, of the class ${storageClassName || "(none)"}; the claim needs one that is Available, of the class ${wanted || "(none)"}.`,
      "Name another volume, its class beside existingVolume (`storageClass`), or its claim in engineStore.existingClaim. One that is Released loses its old claim by `kubectl edit pv` (claimRef).",
    ),
  ];
}

/** Drivers of disks that one machine at a time mounts for writing. */
const ONE_MACHINE =
  /^(ebs\.csi\.aws\.com|disk\.csi\.azure\.com|pd\.csi\.storage\.gke\.io|kubernetes\.io\/(aws-ebs|gce-pd)|rancher\.io\/local-path|k8s\.io\/minikube-hostpath|topolvm\.io)$/;

const IS_DEFAULT = /^(storageclass|ingressclass)\.kubernetes\.io\/is-default-class$/;

interface ClassReading {
  readonly claimNames: readonly string[] | null;
  readonly storageClasses: readonly ClassObject[] | null;
  readonly ingressClasses: readonly ClassObject[] | null;
}

/** Classes of volumes and Ingresses that the stack asks for, by their keys in the stack file. */
function classFindings(
  { store, databases, ingress }: KubernetesStack,
  { claimNames, storageClasses, ingressClasses }: ClassReading,
): readonly Finding[] {
  const isPresent = (claim: string) => claimNames?.includes(claim) === true;
  const spec = store === null || isPresent(store.claim) ? undefined : store.object?.spec;
  const databaseClasses = new Set(
    databases.flatMap(({ claim, storageClass }) => (isPresent(claim) ? [] : [storageClass])),
  );
  const wanted = [
    ...(spec === undefined || spec.volumeName !== undefined
      ? []
      : [["engineStore.storageClass", spec.storageClassName ?? null, storageClasses] as const]),
    ...[...databaseClasses].map((name) => ["databaseStorage.storageClass", name, storageClasses] as const),
    ...(ingress === null
      ? []
      : [["gateway.ingressClass", ingress.spec?.ingressClassName ?? null, ingressClasses] as const]),
  ];
  return wanted.flatMap(([key, name, classes]) => {
    if (classes === null) return [];
    const chosen = classes.find(({ metadata }) =>
      name === null
        ? Object.entries(metadata.annotations ?? {}).some(
            ([one, value]) => IS_DEFAULT.test(one) && value === "true",
          )
        : metadata.name === name,
    );
    const check = classes === ingressClasses ? "ingress" : "storageClass";
    if (chosen === undefined)
      return [
        problem(
          check,
          name === null ? `The cluster has no default class for ${key}.` : `There is no class ${name}.`,
          `${key} ${name === null ? "is not set" : "names it"}; the cluster has ${classes.map(({ metadata }) => metadata.name).join(", ") || "none"}.`,
          `Name one of the cluster's classes in ${key}; if it has no class, install a driver.`,
        ),
      ];
    const isShared = key === "engineStore.storageClass" && spec?.accessModes?.[0] === "ReadWriteMany";
    if (!isShared || !("provisioner" in chosen) || !ONE_MACHINE.test(chosen.provisioner)) return [];
    return [
      problem(
        check,
        `Volumes of the class ${chosen.metadata.name} are mounted by one machine at a time.`,
        `Its driver is ${chosen.provisioner}, and the engine store is asked for as ReadWriteMany, since builds and servers run on several machines.`,
        "Name a class of shared files in engineStore.storageClass (NFS, CephFS, EFS, Filestore, Azure Files), or set `accessMode: ReadWriteOnce` if all pods with GPUs run on one machine.",
      ),
    ];
  });
}
