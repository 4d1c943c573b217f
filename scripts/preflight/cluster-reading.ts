/** What a cluster says of itself, by questions that change nothing. */
import { type ClusterProbe, silenceFinding } from "../cluster/kubectl.ts";
import type { KindReading } from "./cluster-kinds.ts";
import {
  type ApiObject,
  type ClaimReading,
  type ClassReading,
  claimReading,
  classReading,
  type NodeReading,
  nodeReading,
  type PodReading,
  podReading,
  type QuotaReading,
  quotaReading,
  type VolumeReading,
  volumeReading,
} from "./cluster-objects.ts";
import type { Finding } from "./finding.ts";
import { lastLine } from "./host-probe.ts";

/** What a user may have to be allowed. */
export interface Right {
  /** Empty for the core. */
  readonly group: string;
  /** Plural, with its part after a slash: `pods/log`. */
  readonly resource: string;
  /** null: of the whole cluster. */
  readonly namespace: string | null;
  readonly verb: string;
}

/** What is asked beside what every cluster is asked. */
export interface Questions {
  readonly namespace: string;
  readonly rights: readonly Right[];
  /** With their versions: `keda.sh/v1alpha1`. */
  readonly groups: readonly string[];
  /** Names of Secrets. */
  readonly secrets: readonly string[];
  /** Names of PersistentVolumes. */
  readonly volumes: readonly string[];
}

/** null, wherever it stands: the user may not look. */
export interface ClusterReading {
  /** `1.33`. */
  readonly version: string;
  readonly kinds: KindReading;
  readonly hasNamespace: boolean | null;
  readonly namespaceLabels: Readonly<Record<string, string>> | null;
  readonly nodes: readonly NodeReading[] | null;
  readonly pods: readonly PodReading[] | null;
  readonly storageClasses: readonly ClassReading[] | null;
  readonly ingressClasses: readonly ClassReading[] | null;
  readonly claims: readonly ClaimReading[] | null;
  readonly quotas: readonly QuotaReading[] | null;
  /** By name, of those that were asked for and may be looked at; null: there is none. */
  readonly volumes: ReadonlyMap<string, VolumeReading | null>;
  /** Keys by Secret; of one that is not there, none. */
  readonly secretKeys: ReadonlyMap<string, ReadonlySet<string> | null>;
  /** Those that the user lacks. */
  readonly missingRights: readonly Right[] | null;
}

/** @returns What was found instead, where no server answers. */
export async function readCluster(
  probe: ClusterProbe,
  { namespace, rights, groups, secrets, volumes: volumeNames }: Questions,
): Promise<ClusterReading | Finding> {
  const version = await probe.kubectl(["get", "--raw", "/version"]);
  const silence = silenceFinding(probe.context, version);
  if (silence !== null) return silence;
  if (version.exitCode !== 0) return refused(lastLine(version.stderr));
  const { major, minor } = JSON.parse(version.stdout) as { readonly major: string; readonly minor: string };
  const list = (...args: string[]) => items(probe, args);
  const own = ["--namespace", namespace];
  // No more at a time: each is a process, and many clusters start a program that logs in for each.
  const [ownNamespace, nodes, pods] = await Promise.all([
    named(probe, "namespace", namespace),
    list("nodes"),
    list("pods", "--all-namespaces", "--field-selector", "status.phase!=Succeeded,status.phase!=Failed"),
  ]);
  const [storageClasses, ingressClasses, claims, quotas] = await Promise.all([
    list("storageclasses.storage.k8s.io"),
    list("ingressclasses.networking.k8s.io"),
    list("persistentvolumeclaims", ...own),
    list("resourcequotas", ...own),
  ]);
  const kinds = new Map<string, ReadonlySet<string> | null>();
  for (const group of groups) {
    const found = await kindsOf(probe, group);
    if (found !== undefined) kinds.set(group, found);
  }
  const secretKeys = new Map<string, ReadonlySet<string> | null>();
  for (const name of secrets) secretKeys.set(name, await keysOf(probe, name, namespace));
  const volumes = new Map<string, VolumeReading | null>();
  for (const name of volumeNames) {
    const found = await named(probe, "persistentvolume", name);
    if (found !== undefined) volumes.set(name, found === null ? null : volumeReading(found));
  }
  return {
    // `33+` at some vendors.
    version: `${major}.${Number.parseInt(minor, 10)}`,
    kinds,
    hasNamespace: ownNamespace === undefined ? null : ownNamespace !== null,
    namespaceLabels: ownNamespace?.metadata.labels ?? null,
    nodes: nodes?.map(nodeReading) ?? null,
    pods: pods?.map(podReading) ?? null,
    storageClasses: storageClasses?.map(classReading) ?? null,
    ingressClasses: ingressClasses?.map(classReading) ?? null,
    claims: claims?.map(claimReading) ?? null,
    quotas: quotas?.map(quotaReading) ?? null,
    volumes,
    secretKeys,
    missingRights: await missingRights(probe, rights),
  };
}

function refused(words: string): Finding {
  return {
    severity: "problem",
    check: "server",
    what: "The API server refuses to say which version it is.",
    why: words,
    fix: "Ask whoever owns the cluster for the role system:discovery, which every user has elsewhere.",
  };
}

async function items(probe: ClusterProbe, args: readonly string[]): Promise<readonly ApiObject[] | null> {
  const { exitCode, stdout } = await probe.kubectl(["get", ...args, "--output", "json"]);
  return exitCode === 0 ? (JSON.parse(stdout) as { readonly items: readonly ApiObject[] }).items : null;
}

/** null: there is none; undefined: the user may not look. */
async function named(probe: ClusterProbe, kind: string, name: string): Promise<ApiObject | null | undefined> {
  const { exitCode, stdout } = await probe.kubectl([
    ...["get", kind, name, "--ignore-not-found", "--output", "json"],
  ]);
  if (exitCode !== 0) return undefined;
  return stdout.trim() === "" ? null : (JSON.parse(stdout) as ApiObject);
}

/** As {@link KindReading} has them; undefined where the user may not ask. */
async function kindsOf(
  probe: ClusterProbe,
  groupVersion: string,
): Promise<ReadonlySet<string> | null | undefined> {
  const { exitCode, stdout, stderr } = await probe.kubectl(["get", "--raw", `/apis/${groupVersion}`]);
  if (exitCode !== 0) {
    if (/\(NotFound\)/.test(stderr)) return new Set();
    return /\(ServiceUnavailable\)/.test(stderr) ? null : undefined;
  }
  const { resources } = JSON.parse(stdout) as { readonly resources: readonly { readonly kind: string }[] };
  return new Set(resources.map(({ kind }) => kind));
}

/** Names alone: what stands behind them stays in kubectl. */
async function keysOf(
  probe: ClusterProbe,
  name: string,
  namespace: string,
): Promise<ReadonlySet<string> | null> {
  const { exitCode, stdout } = await probe.kubectl([
    ...["get", "secret", name, "--namespace", namespace, "--ignore-not-found"],
    ...["--output", 'go-template={{range $key, $_ := .data}}{{$key}}{{"\\n"}}{{end}}'],
  ]);
  return exitCode === 0 ? new Set(stdout.split("\n").filter((key) => key !== "")) : null;
}

/** The server keeps no such object: creating one is the question. */
async function missingRights(
  probe: ClusterProbe,
  rights: readonly Right[],
): Promise<readonly Right[] | null> {
  const reviews = rights.map(({ group, resource, namespace, verb }) => {
    const [name = "", subresource] = resource.split("/");
    return {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SelfSubjectAccessReview",
      spec: {
        resourceAttributes: {
          group,
          resource: name,
          verb,
          ...(subresource === undefined ? {} : { subresource }),
          ...(namespace === null ? {} : { namespace }),
        },
      },
    };
  });
  const { exitCode, stdout } = await probe.kubectl(
    ["create", "--filename", "-", "--validate=false", "--output", 'jsonpath={.status.allowed}{"\\n"}'],
    JSON.stringify({ apiVersion: "v1", kind: "List", items: reviews }),
  );
  const answers = stdout.trim().split("\n");
  if (exitCode !== 0 || answers.length !== rights.length) return null;
  return rights.filter((_, index) => answers[index] !== "true");
}
