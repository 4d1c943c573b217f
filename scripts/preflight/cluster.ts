/**
 * What a cluster has of a stack's needs. Its API server judges the stack's objects in a dry run; the questions here are those
 * that it can't answer: machines, storage, Secrets of others, images. Nothing is changed.
 */
import type { KubernetesStack } from "../../infra/plan/kubernetes/kubernetes-stack.ts";
import type { ApiObject } from "../../infra/plan/kubernetes/objects.ts";
import { type ClusterProbe, silenceFinding } from "../cluster/kubectl.ts";
import type { AskRegistry } from "../images/registry.ts";
import type { ClusterTarget } from "../program/targets.ts";
import { apiFindings, isCertified, refusalFindings, rightsFindings } from "./cluster-objects.ts";
import { poolFindings } from "./cluster-pools.ts";
import { frontFindings, isOfStack, type NodeObject, type PodObject } from "./cluster-room.ts";
import { type CheckResult, type Finding, problem, warning } from "./finding.ts";
import { lastLine } from "./host-probe.ts";
import { clusterImageFindings } from "./images.ts";

type Strings = Readonly<Record<string, string>>;

/** The part of classes of volumes and of Ingresses, of claims and of volumes that is read. */
interface ReadObject {
  readonly metadata: { readonly name: string; readonly labels?: Strings; readonly annotations?: Strings };
  readonly provisioner?: string;
  readonly spec?: {
    readonly storageClassName?: string;
    readonly claimRef?: { readonly namespace?: string; readonly name?: string };
  };
  readonly status?: { readonly phase?: string };
}

/** null: the user may not list them. */
type Listed<T = ReadObject> = readonly T[] | null;

/** @returns All checks; where the API server gives no answer, that alone. */
export async function clusterPreflight(
  target: ClusterTarget,
  probe: ClusterProbe,
  ask: AskRegistry,
): Promise<readonly CheckResult[]> {
  const { stack, plan } = target;
  const version = await probe.kubectl(["get", "--raw", "/version"]);
  const silence = silenceFinding(probe.context, version) ?? refusedVersion(version);
  if (silence !== null) return [{ looksAt: "API server", findings: [silence] }];
  const own = ["--namespace", stack.namespace.name];
  // No more at a time: each is a process, and many clusters start a program that logs in for each.
  const [namespace, nodes, pods] = await Promise.all([
    named(probe, "namespace", stack.namespace.name),
    list<NodeObject>(probe, "nodes"),
    list<PodObject>(
      probe,
      ...["pods", "--all-namespaces", "--field-selector", "status.phase!=Succeeded,status.phase!=Failed"],
    ),
  ]);
  const [storageClasses, ingressClasses, claims] = await Promise.all([
    list(probe, "storageclasses.storage.k8s.io"),
    list(probe, "ingressclasses.networking.k8s.io"),
    list(probe, "persistentvolumeclaims", ...own),
  ]);
  const state = {
    // Of a namespace that the user may not see, the server says the rest.
    hasNamespace: namespace !== null,
    isUp: pods?.some(isOfStack(stack)) ?? false,
  };
  const [refusals, rights, apis] = await Promise.all([
    refusalFindings(stack, probe, state),
    rightsFindings(stack, probe),
    apiFindings(stack, probe),
  ]);
  const room = { nodes, pods };
  const results: readonly (readonly [looksAt: string, findings: readonly Finding[]])[] = [
    ["objects, as the API server judges them", refusals],
    ["metrics and certificates of others", apis],
    ["your rights", rights],
    ["namespace", namespaceFindings(target, namespace)],
    ["Secrets", state.hasNamespace ? await secretFindings(stack, probe) : []],
    ["engine store", await storeFindings(stack, probe, { claims, storageClasses, ...state })],
    ["storage of databases", databaseFindings(stack, { claims, storageClasses })],
    ["Ingress", ingressFindings(stack, ingressClasses)],
    ["what may be listed", listFindings(room)],
    [
      "pools: GPUs, drivers, room",
      plan.tier === "cpu"
        ? []
        : plan.spec.pools.flatMap((pool) => poolFindings({ ...target, plan }, pool, room)),
    ],
    ["room for all else", frontFindings(target, room)],
    ["images and registries", await clusterImageFindings(target, ask)],
  ];
  return results.map(([looksAt, findings]) => ({ looksAt, findings }));
}

function refusedVersion({ exitCode, stderr }: { readonly exitCode: number | null; readonly stderr: string }) {
  if (exitCode === 0) return null;
  return problem(
    "server",
    "The API server refuses to say which version it is.",
    lastLine(stderr),
    "Ask whoever owns the cluster for the role system:discovery, which every user has by default.",
  );
}

async function list<T = ReadObject>(probe: ClusterProbe, ...words: readonly string[]): Promise<Listed<T>> {
  const { exitCode, stdout } = await probe.kubectl(["get", ...words, "--output", "json"]);
  return exitCode === 0 ? (JSON.parse(stdout) as { readonly items: readonly T[] }).items : null;
}

/** null: there is none; undefined: the user may not look. */
async function named(
  probe: ClusterProbe,
  kind: string,
  name: string,
): Promise<ReadObject | null | undefined> {
  const words = ["get", kind, name, "--ignore-not-found", "--output", "json"];
  const { exitCode, stdout } = await probe.kubectl(words);
  if (exitCode !== 0) return undefined;
  return stdout.trim() === "" ? null : (JSON.parse(stdout) as ReadObject);
}

/** Of all objects of a stack. */
const STACK_LABEL = "app.kubernetes.io/instance";

/** `up` takes over a namespace of the name, whoever made it, and gives it labels and a quota. */
function namespaceFindings(
  { stack: { namespace }, name: stackName }: ClusterTarget,
  there: ReadObject | null | undefined,
): readonly Finding[] {
  const { name, object } = namespace;
  const owner = there?.metadata.labels?.[STACK_LABEL];
  // A namespace that an earlier `up` of the same stack has left is its own.
  if (object === null || there == null || owner === object.metadata.labels[STACK_LABEL]) return [];
  return [
    problem(
      "namespace",
      `The namespace ${name} is there already, and the stack ${stackName} has not made it.`,
      `${owner === undefined ? "Its owner is not known" : `The stack ${owner} has made it`}, and it would get this stack's Pod Security labels and quota.`,
      "Name another one in `namespace`; or write `createNamespace: false`, which leaves it as it is.",
    ),
  ];
}

function listFindings({ nodes, pods }: { readonly nodes: Listed<unknown>; readonly pods: Listed<unknown> }) {
  if (nodes !== null && pods !== null) return [];
  return [
    warning(
      "machines",
      `You may not list ${nodes === null ? "nodes" : "pods of all namespaces"}.`,
      nodes === null ? "So machines, GPUs and drivers are not checked." : "So every GPU counts as free.",
      "Ask whoever owns the cluster to run preflight, or for the ClusterRole view.",
    ),
  ];
}

/** Secrets of others that the stack names, with the key that it reads and the command that makes them. */
function namedSecrets(stack: KubernetesStack) {
  const { builds, servers, imagePullSecrets, ingress, apiKeys, namespace } = stack;
  const references = [...builds, ...servers].flatMap(({ pod }) => Object.values(pod.secretFiles));
  const tlsSecret = ingress?.spec?.tls?.[0]?.secretName;
  const create = (kind: string, name: string, rest: string) =>
    `\`kubectl create secret ${kind} ${name} --namespace ${namespace.name} ${rest}\`.`;
  const all = [
    ...references
      .filter(({ name, from }) => from === null && name !== apiKeys?.metadata.name)
      .map(({ name, key }) => ({
        ...{ name, key, why: "The stack file names it, and pods that mount it wait until it is there." },
        fix: create("generic", name, `--from-file=${key}=FILE`),
      })),
    ...imagePullSecrets.map((name) => ({
      name,
      key: ".dockerconfigjson",
      why: "images.pullSecrets names it, and without it a private registry gives no image.",
      fix: create("docker-registry", name, "--docker-server=… --docker-username=…"),
    })),
    ...(ingress === null || tlsSecret === undefined || isCertified(ingress)
      ? []
      : [
          {
            name: tlsSecret,
            key: "tls.crt",
            why: `gateway.tls.secretName names it: the certificate of ${hostOf(ingress)}.`,
            fix: create("tls", tlsSecret, "--cert=FILE --key=FILE"),
          },
        ]),
  ];
  return [...new Map(all.map((one) => [`${one.name} ${one.key}`, one])).values()];
}

async function secretFindings(stack: KubernetesStack, probe: ClusterProbe): Promise<readonly Finding[]> {
  const findings = namedSecrets(stack).map(async ({ name, key, why, fix }) => {
    // Names of keys alone: values stay in kubectl.
    const { exitCode, stdout } = await probe.kubectl([
      ...["get", "secret", name, "--namespace", stack.namespace.name, "--ignore-not-found"],
      ...["--output", 'go-template={{range $key, $_ := .data}}{{$key}}{{"\\n"}}{{end}}'],
    ]);
    const keys = stdout.split("\n").filter((one) => one !== "");
    if (exitCode !== 0 || keys.includes(key)) return [];
    const what =
      keys.length === 0
        ? `There is no Secret ${name} in the namespace ${stack.namespace.name}.`
        : `The Secret ${name} has no key ${key}.`;
    return [problem("secrets", what, keys.length === 0 ? why : `${why} It has ${keys.join(", ")}.`, fix)];
  });
  return (await Promise.all(findings)).flat();
}

/** Host name of the stack's Ingress. */
function hostOf({ spec }: ApiObject<"Ingress">): string {
  return spec?.rules?.[0]?.host ?? "";
}

/** Drivers of disks that one machine at a time mounts for writing. */
const ONE_MACHINE: ReadonlySet<string> = new Set([
  "disk.csi.azure.com",
  "ebs.csi.aws.com",
  "kubernetes.io/aws-ebs",
  "kubernetes.io/gce-pd",
  "pd.csi.storage.gke.io",
  "rancher.io/local-path",
  "k8s.io/minikube-hostpath",
  "topolvm.io",
]);

interface StoreReading {
  readonly claims: Listed;
  readonly storageClasses: Listed;
  readonly hasNamespace: boolean;
}

async function storeFindings(
  { store }: KubernetesStack,
  probe: ClusterProbe,
  { claims, storageClasses, hasNamespace }: StoreReading,
): Promise<readonly Finding[]> {
  if (store === null) return [];
  const { claim, object } = store;
  const there = claims?.find(({ metadata }) => metadata.name === claim);
  // The dry run judges a claim that an earlier stack left.
  if (object?.spec !== undefined && there !== undefined) return [];
  if (object?.spec?.volumeName !== undefined)
    return volumeFindings(
      object.spec.volumeName,
      object.spec.storageClassName ?? "",
      await named(probe, "persistentvolume", object.spec.volumeName),
    );
  if (object?.spec !== undefined) {
    const { storageClassName = null, accessModes: [mode] = [] } = object.spec;
    return newClaimFindings(storageClasses, storageClassName, mode);
  }
  if (claims === null || !hasNamespace) return [];
  if (there === undefined)
    return [
      problem(
        "claim",
        `There is no claim ${claim}.`,
        `engineStore.existingClaim names it; the namespace has ${claims.map(({ metadata }) => metadata.name).join(", ") || "none"}.`,
        "Make it, or name a class in engineStore.storageClass, and the stack makes one.",
      ),
    ];
  // A claim that waits for its first pod is Pending, and right so.
  if (there.status?.phase !== "Lost") return [];
  return [
    problem(
      "claim",
      `The claim ${claim} has lost its volume.`,
      "Its phase is Lost.",
      `\`kubectl describe pvc ${claim}\` says which volume it was; make claim and volume anew.`,
    ),
  ];
}

/** @param wanted - Class of the claim; empty: none. */
function volumeFindings(
  name: string,
  wanted: string,
  volume: ReadObject | null | undefined,
): readonly Finding[] {
  if (volume === undefined) return [];
  const found = (what: string, why: string, fix: string) => [problem("volume", what, why, fix)];
  if (volume === null)
    return found(
      `There is no volume ${name}.`,
      "engineStore.existingVolume names it.",
      "Make the PersistentVolume, or name a class in engineStore.storageClass.",
    );
  const { storageClassName = "", claimRef } = volume.spec ?? {};
  const phase = volume.status?.phase;
  if (phase !== "Available")
    return found(
      `The volume ${name} is ${phase}.`,
      `It belongs to ${claimRef === undefined ? "a claim" : `the claim ${claimRef.namespace}/${claimRef.name}`}, and a volume is bound to one claim.`,
      phase === "Released"
        ? `Take its claimRef away (\`kubectl edit pv ${name}\`) where its old claim is gone for good, or name another volume.`
        : "Name its claim in engineStore.existingClaim, or another volume.",
    );
  if (storageClassName === wanted) return [];
  return found(
    `The volume ${name} is of the class ${storageClassName || "none"}.`,
    `The claim asks for the class ${wanted || "none"}, and only a volume of the same class is bound to it.`,
    storageClassName === ""
      ? "Remove engineStore.storageClass."
      : `Write \`storageClass: ${storageClassName}\` beside existingVolume.`,
  );
}

function newClaimFindings(classes: Listed, wanted: string | null, mode?: string): readonly Finding[] {
  const found = classFindings(
    classes,
    wanted,
    "storageClass",
    "The engine store",
    "engineStore.storageClass",
  );
  const { metadata, provisioner = "" } = chosenClass(classes, wanted) ?? {};
  if (found.length > 0 || mode !== "ReadWriteMany" || !ONE_MACHINE.has(provisioner)) return found;
  return [
    problem(
      "storageClass",
      `Volumes of the class ${metadata?.name} are mounted by one machine at a time.`,
      `Its driver is ${provisioner}, and the engine store is asked for as ReadWriteMany, since builds and servers run on several machines.`,
      "Name a class of shared files in engineStore.storageClass (NFS, CephFS, EFS, Filestore, Azure Files), or set `accessMode: ReadWriteOnce` where all pods with GPUs run on one machine.",
    ),
  ];
}

function databaseFindings(
  { databases }: KubernetesStack,
  { claims, storageClasses }: Pick<StoreReading, "claims" | "storageClasses">,
): readonly Finding[] {
  const isThere = ({ claim }: { readonly claim: string }) =>
    claims?.some(({ metadata }) => metadata.name === claim) === true;
  if (databases.every(isThere)) return [];
  return [...new Set(databases.map(({ storageClass }) => storageClass))].flatMap((wanted) =>
    classFindings(storageClasses, wanted, "storageClass", "Databases", "databaseStorage.storageClass"),
  );
}

function ingressFindings({ ingress }: KubernetesStack, classes: Listed): readonly Finding[] {
  if (ingress === null) return [];
  const wanted = ingress.spec?.ingressClassName ?? null;
  return classFindings(
    classes,
    wanted,
    "ingress",
    `The Ingress for ${hostOf(ingress)}`,
    "gateway.ingressClass",
  );
}

const IS_DEFAULT = /^(storageclass|ingressclass)\.kubernetes\.io\/is-default-class$/;

function chosenClass(classes: Listed, wanted: string | null): ReadObject | undefined {
  return classes?.find(({ metadata: { name, annotations = {} } }) =>
    wanted === null
      ? Object.entries(annotations).some(([key, value]) => IS_DEFAULT.test(key) && value === "true")
      : name === wanted,
  );
}

/** A class of volumes or Ingresses that the cluster lacks. @param key - Of the stack file. */
function classFindings(
  classes: Listed,
  wanted: string | null,
  check: string,
  what: string,
  key: string,
): readonly Finding[] {
  if (classes === null || chosenClass(classes, wanted) !== undefined) return [];
  const names = classes.map(({ metadata }) => metadata.name).join(", ");
  return [
    problem(
      check,
      wanted === null ? "The cluster has no default class for it." : `There is no class ${wanted}.`,
      `${what} ${what.endsWith("s") ? "need" : "needs"} it; the cluster has ${names || "none"}.`,
      names === "" ? `Install a driver, and name its class in ${key}.` : `Name one of these in ${key}.`,
    ),
  ];
}
