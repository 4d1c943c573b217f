/** A cluster that can only be read: kubectl's output of it. */
import type { ClusterProbe } from "../../../scripts/cluster/kubectl.ts";
import type { ProbeAnswer } from "../../../scripts/preflight/host-probe.ts";

type Json = Readonly<Record<string, unknown>>;

export interface FakeCluster {
  /** Answer to every call. */
  readonly fails?: Partial<ProbeAnswer>;
  /** Kinds by group and version; null when the API is registered but does not respond. */
  readonly kinds?: Readonly<Record<string, readonly string[] | null>>;
  /** Labels of the stack's namespace; null when it does not exist. Absent: the stack itself has created it. */
  readonly namespaceLabels?: Readonly<Record<string, string>> | null;
  /** PersistentVolumes by name. */
  readonly volumes?: Readonly<Record<string, Json>>;
  /** Objects by the plural of their kind; null when the user may not list them. */
  readonly lists?: Readonly<Record<string, readonly Json[] | null>>;
  /** Keys by Secret. */
  readonly secrets?: Readonly<Record<string, readonly string[]>>;
  /** `verb resource`, as in `create deployments`. */
  readonly denied?: readonly string[];
  /** Messages of kubectl about the dry run of all objects, by a part of an object's JSON. */
  readonly refuses?: Readonly<Record<string, string>>;
}

const ok = (stdout: string): ProbeAnswer => ({ exitCode: 0, stdout, stderr: "" });

function refusal(reason: string, words: string): ProbeAnswer {
  return { exitCode: 1, stdout: "", stderr: `Error from server (${reason}): ${words}` };
}

const forbidden = refusal("Forbidden", 'it is forbidden: User "me" cannot list it');

/** A machine that accepts pods. */
export function node(
  name: string,
  {
    allocatable = {},
    labels = {},
    taints = [],
    unschedulable = false,
  }: { allocatable?: Json; labels?: Json; taints?: readonly Json[]; unschedulable?: boolean } = {},
): Json {
  return {
    metadata: { name, labels },
    spec: { taints, unschedulable },
    status: {
      allocatable: {
        cpu: "31500m",
        memory: "128Gi",
        "ephemeral-storage": "900Gi",
        pods: "110",
        ...allocatable,
      },
      conditions: [{ type: "Ready", status: "True" }],
    },
  };
}

interface Review {
  readonly spec: {
    readonly resourceAttributes: {
      readonly verb: string;
      readonly resource: string;
      readonly subresource?: string;
    };
  };
}

/** @throws Error for a call that changes something, or is not expected. */
export function fakeClusterProbe(cluster: FakeCluster, context: string | null = null): ClusterProbe {
  const { lists = {}, secrets = {}, denied = [] } = cluster;
  return {
    context,
    kubectl: async (args, input = "") => {
      const [verb, what = "", ...rest] = args;
      if (cluster.fails !== undefined) return { exitCode: 1, stdout: "", stderr: "", ...cluster.fails };
      if (verb === "apply") {
        if (!args.includes("--dry-run=server")) throw new Error("kubectl apply changes something");
        const refused = Object.entries(cluster.refuses ?? {}).flatMap(([text, words]) =>
          input.includes(text) ? [words] : [],
        );
        return { exitCode: refused.length === 0 ? 0 : 1, stdout: "", stderr: refused.join("\n") };
      }
      if (verb === "create") {
        const { items } = JSON.parse(input) as { readonly items: readonly (Review & { kind: string })[] };
        if (items.some(({ kind }) => kind !== "SelfSubjectAccessReview"))
          throw new Error("kubectl create changes something");
        const answers = items.map(({ spec: { resourceAttributes: one } }) => {
          const resource = [one.resource, ...(one.subresource === undefined ? [] : [one.subresource])];
          return !denied.includes(`${one.verb} ${resource.join("/")}`);
        });
        return ok(`${answers.join("\n")}\n`);
      }
      if (verb !== "get") throw new Error(`kubectl ${verb} changes something, or nobody expects it`);
      if (what === "--raw") {
        if (rest[0] === "/version") return ok("{}");
        const kinds = cluster.kinds?.[(rest[0] ?? "").replace(/^\/apis\//, "")];
        if (kinds === undefined)
          return refusal("NotFound", "the server could not find the requested resource");
        if (kinds === null) return refusal("ServiceUnavailable", "the server is currently unable");
        return ok(JSON.stringify({ resources: kinds.map((kind) => ({ name: kind, kind })) }));
      }
      if (what === "namespace") {
        const { namespaceLabels: labels = { "app.kubernetes.io/instance": "room" } } = cluster;
        return ok(labels === null ? "" : JSON.stringify({ metadata: { name: rest[0], labels } }));
      }
      if (what === "persistentvolume") {
        const volume = cluster.volumes?.[rest[0] ?? ""];
        return ok(volume === undefined ? "" : JSON.stringify({ metadata: { name: rest[0] }, ...volume }));
      }
      if (what === "secret") {
        if (!args.some((arg) => arg.startsWith("go-template=")))
          throw new Error("values of a Secret were asked for");
        return ok((secrets[rest[0] ?? ""] ?? []).map((key) => `${key}\n`).join(""));
      }
      if (!args.includes("json")) throw new Error(`kubectl ${args.join(" ")} is not expected`);
      const items = lists[what.split(".")[0] ?? ""];
      return items === null ? forbidden : ok(JSON.stringify({ items: items ?? [] }));
    },
  };
}
