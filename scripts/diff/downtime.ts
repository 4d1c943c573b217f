/**
 * Finds the servers that are unavailable while a change is made, for how long and why: the graph says how they are
 * replaced, the plan how long each step takes.
 */
import { parse } from "yaml";
import { canonicalJson } from "../../infra/plan/plain-data.ts";
import { code, type Inline, joined, strong } from "../markdown.ts";
import { duration } from "../plan/text-table.ts";
import { type Entry, grouped, type Section } from "./resource-report.ts";
import type { PlanDifferences, ResourceChange, StackDiff } from "./types.ts";

type Server = PlanDifferences["servers"][number];

interface Downtime {
  /** The model's name, else the label of the resource. */
  readonly who: string;
  /** Follows the names of its servers: `unavailable for …`. */
  readonly words: Inline;
  /** Whether no server answers meanwhile. */
  readonly isUnavailable: boolean;
}

/** Longest first; servers with the same downtime are one entry. */
export function downtimeSection(diff: StackDiff): Section {
  const entries = grouped(downtimes(diff), ({ words }) => words).map((alike): Entry => {
    const names = alike.map(({ who }): Inline => [code(who)]);
    return { text: [...joined(names, ", "), ": ", ...(alike[0]?.words ?? [])] };
  });
  return { title: "Downtime (estimates of the plan)", entries };
}

/** Number of models of which no server answers for a time. */
export function unavailableModels(diff: StackDiff): number {
  const models = new Set(diff.plan?.servers.map(({ model }) => model));
  return downtimes(diff).filter(({ who, isUnavailable }) => isUnavailable && models.has(who)).length;
}

function downtimes(diff: StackDiff): readonly Downtime[] {
  const { resources, plan } = diff;
  if (resources === null || !diff.base.hasStack) return [];
  const servers = plan?.servers ?? [];
  const found = new Map(
    [...resources, ...composeChanges(resources)].flatMap((change): [string, ResourceChange][] => {
      const subject = servedBy(change);
      return subject === undefined ? [] : [[subject, change]];
    }),
  );
  const isNew = new Set(
    plan?.coldStarts.flatMap(({ model, beforeSeconds }) => (beforeSeconds === null ? [model] : [])),
  );
  const causes = { machines: machineChanges(resources), builds: stoppingBuilds(plan) };
  const ofModels = servers
    .filter(({ model }) => !isNew.has(model))
    .flatMap((server) => downtimeOf(server, found.get(server.model), causes) ?? []);
  const planned = new Set(servers.map(({ model }) => model));
  const others = [...found].flatMap(([who, change]) =>
    planned.has(who) || change.kind === "create" ? [] : (otherDowntime(who, change) ?? []),
  );
  return [...ofModels, ...others].toSorted((a, b) => Number(b.isUnavailable) - Number(a.isUnavailable));
}

const CONTAINER = "docker:index/container:Container";

const SERVERS = ["kubernetes:apps/v1:Deployment", "kubernetes:apps/v1:StatefulSet", CONTAINER];

/** Model that a server serves, else its label; undefined when the resource is not a server, or stays as it is. */
function servedBy({ type, kind, label, before, after, properties }: ResourceChange): string | undefined {
  if (!SERVERS.includes(type)) return undefined;
  const inputs = after ?? before ?? {};
  const labels = labelsOf(inputs);
  if (type.startsWith("docker:")) {
    const role = labels["engine-room.role"] ?? "";
    return /build/i.test(role) ? undefined : (labels["engine-room.model"] ?? role);
  }
  const restarts = kind !== "update" || properties.some(({ path }) => path.startsWith("spec.template"));
  return restarts ? (labels["engine-room/model"] ?? label) : undefined;
}

function labelsOf(inputs: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> {
  const { metadata, labels } = inputs as {
    readonly metadata?: { readonly labels?: Readonly<Record<string, string>> };
    readonly labels?: readonly { readonly label: string; readonly value: string }[];
  };
  if (Array.isArray(labels)) return Object.fromEntries(labels.map(({ label, value }) => [label, value]));
  return metadata?.labels ?? {};
}

/** Part of a service in a Compose file that is read. */
interface ComposeService {
  readonly image?: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** `30s` */
  readonly stop_grace_period?: string;
}
type ComposeServices = Readonly<Record<string, ComposeService>>;

/** In bytes of Systems Manager: infra/plan/aws/machine/tasks.ts. */
const LONGEST_DOCUMENT = 65_536;

/** Reads the document that sets a machine of EC2 up; undefined when it has no Compose file. */
function composeServices(document: ResourceChange["after"]): ComposeServices | undefined {
  const content = String(document?.content);
  if (content.length > LONGEST_DOCUMENT) return undefined;
  const file = / \/etc\/engine-room\/next\/compose\.yaml ([\w+/=]+)/.exec(content)?.[1] ?? "";
  const compose: { readonly services?: ComposeServices } | null = parse(
    Buffer.from(file, "base64").toString(),
  );
  return compose?.services;
}

/** Containers that Compose replaces on a machine of EC2, as those of a Docker host. */
function composeChanges(resources: readonly ResourceChange[]): readonly ResourceChange[] {
  return resources.flatMap((change) => {
    const { type, name, kind, before, after } = change;
    // Only the gateway reads these: another value is another label of its container.
    const isRead = /-secrets-(mongoUri|vectorApiKey)-version$/.test(name);
    if (type === "aws:secretsmanager/secretVersion:SecretVersion" && isRead && kind !== "create") {
      const labels = { "engine-room.role": "gateway" };
      return containerChange(change, { labels }, { labels, stop_grace_period: "0s" });
    }
    if (type !== "aws:ssm/document:Document" || !name.endsWith("-tasks-setup-document")) return [];
    const [was, is] = [composeServices(before), composeServices(after)];
    if (was === undefined || is === undefined) return [];
    return Object.keys({ ...was, ...is }).flatMap((service) =>
      containerChange(change, was[service], is[service]),
    );
  });
}

/** Returns undefined if nothing but the order of the service changes. */
function containerChange(
  change: ResourceChange,
  was: ComposeService | undefined,
  is: ComposeService | undefined,
): readonly ResourceChange[] {
  const [left, right] = [was, is].map((service) => canonicalJson({ ...service, depends_on: null }));
  if (left === right) return [];
  const inputs = (service: ComposeService | undefined) =>
    service === undefined
      ? null
      : {
          labels: Object.entries(service.labels ?? {}).map(([label, value]) => ({ label, value })),
          destroyGraceSeconds: Number.parseInt(service.stop_grace_period ?? "0", 10),
        };
  return [
    {
      ...change,
      type: CONTAINER,
      kind: was === undefined ? "create" : is === undefined ? "delete" : "replace",
      before: inputs(was),
      after: inputs(is),
      properties:
        was?.image === is?.image
          ? []
          : [{ path: "image", kind: "update" as const, effect: "replace" as const }],
      deletedFirst: true,
    },
  ];
}

/** Part of a Deployment's inputs that decides how its pods are replaced. */
interface PodsOfServer {
  readonly replicas?: number;
  readonly strategy?: { readonly rollingUpdate?: { readonly maxSurge?: number } };
  readonly template?: { readonly spec?: { readonly terminationGracePeriodSeconds?: number } };
}

/** Causes of all servers: a hostile report may have thousands. */
interface Causes {
  /** Why the machines of a server end; undefined: they stay. */
  readonly machines: (server: Server) => string | undefined;
  /** A build that takes the GPU of a server. */
  readonly builds: (server: Server) => StoppingBuild | null;
}

function downtimeOf(
  server: Server,
  change: ResourceChange | undefined,
  { machines: machinesOf, builds }: Causes,
): Downtime | null {
  const { model: who, startSeconds, coldStartSeconds, pullSeconds } = server;
  const replaced = change === undefined ? null : rollout(change);
  const machines = machinesOf(server);
  if (machines !== undefined) {
    const time = duration(coldStartSeconds);
    // Its pods request another GPU, so they start on the new machines, and the old pods end after them.
    return replaced === "surge" &&
      change !== undefined &&
      changes(change, /^spec\.template\.spec\.nodeSelector\b/)
      ? {
          who,
          isUnavailable: false,
          words: [`no downtime; ${machines}, and a new server starts there first (${time})`],
        }
      : {
          who,
          isUnavailable: true,
          words: [
            strong(`unavailable for up to ${time}`),
            `; ${machines} (machine, image, engine copy and load)`,
          ],
        };
  }
  const build = builds(server);
  if (build !== null) {
    const starts = replaced === null ? 1 : 2;
    return {
      who,
      isUnavailable: true,
      words: [
        strong(
          `${build.isOwn ? "" : "perhaps "}unavailable for ${duration(build.seconds + starts * startSeconds)}`,
        ),
        `; its GPU builds an engine (${duration(build.seconds)}, `,
        code("whenFull: stopServer"),
        `), then it starts (${duration(startSeconds)})`,
      ],
    };
  }
  if (change === undefined || replaced === null) return null;
  const pulls = changes(change, /\bimage$/) && pullSeconds > 0;
  const time = duration(startSeconds + (pulls ? pullSeconds : 0));
  const parts = pulls ? "image, engine copy and load" : "engine copy and load";
  const { replicas = 1 } = podsOf(change);
  if (replaced === "surge")
    return {
      who,
      isUnavailable: false,
      words: [`no downtime; a new server starts first (surge; ready after ${time}: ${parts})`],
    };
  const last = stopSeconds(change);
  const stop = last === 0 ? "" : `, after up to ${duration(last)} for the last answers`;
  return replaced === "inPlace" && replicas > 1
    ? {
        who,
        isUnavailable: false,
        words: [
          `no downtime; one of ${replicas} servers at a time is unavailable for ${time} (${parts})${stop}`,
        ],
      }
    : {
        who,
        isUnavailable: true,
        words: [strong(`unavailable for ${time}`), ` (${parts}); the old server ends first${stop}`],
      };
}

function changes({ properties }: ResourceChange, paths: RegExp): boolean {
  return properties.some(({ path }) => paths.test(path));
}

/** Returns null for a new server. */
function rollout(change: ResourceChange): "surge" | "inPlace" | "replaced" | null {
  if (change.kind === "create") return null;
  if (change.kind !== "update") return change.deletedFirst === false ? "surge" : "replaced";
  return podsOf(change).strategy?.rollingUpdate?.maxSurge === 0 ? "inPlace" : "surge";
}

function podsOf({ before, after }: ResourceChange): PodsOfServer {
  return ((after ?? before)?.spec ?? {}) as PodsOfServer;
}

/** Time until a server that still answers is killed. */
function stopSeconds(change: ResourceChange): number {
  const { destroyGraceSeconds } = (change.before ?? {}) as { readonly destroyGraceSeconds?: number };
  return podsOf(change).template?.spec?.terminationGracePeriodSeconds ?? destroyGraceSeconds ?? 0;
}

/** Gateway, encoders and databases. */
function otherDowntime(who: string, change: ResourceChange): Downtime | null {
  if (change.kind === "delete") return { who, isUnavailable: true, words: [strong("no longer served")] };
  const { type } = change;
  const replaced = rollout(change);
  if (type !== "kubernetes:apps/v1:StatefulSet" && replaced !== "replaced" && replaced !== "inPlace")
    return null;
  const { replicas = 1 } = podsOf(change);
  return replicas > 1
    ? null
    : {
        who,
        isUnavailable: true,
        words: [strong("unavailable"), "; its old container ends before the new container starts"],
      };
}

interface StoppingBuild {
  readonly seconds: number;
  /** Whether only this server could give its GPU to the build. */
  readonly isOwn: boolean;
}

function stoppingBuilds(plan: PlanDifferences | null): Causes["builds"] {
  if (plan === null) return () => null;
  const { engines, newBuilds, servers } = plan;
  const secondsOf = new Map(newBuilds.map(({ engine, seconds }) => [engine, seconds]));
  const enginesOf = collected([
    ...engines.rebuilt.map(({ model, after }) => [model, after] as const),
    ...engines.added.map(({ model, engine }) => [model, engine] as const),
  ]);
  const builtIn = collected(
    servers.flatMap(({ model, buildPool, buildStopsServers }) =>
      buildStopsServers
        ? [...(enginesOf.get(model) ?? [])].map((engine) => [buildPool, engine] as const)
        : [],
    ),
  );
  const modelsOf = collected(servers.map(({ pool, model }) => [pool, model] as const));
  const secondsIn = new Map(
    [...builtIn].map(([pool, built]) => [
      pool,
      [...built].reduce((sum, engine) => sum + (secondsOf.get(engine) ?? 0), 0),
    ]),
  );
  return ({ pool }) => {
    const seconds = secondsIn.get(pool) ?? 0;
    return seconds === 0 ? null : { seconds, isOwn: modelsOf.get(pool)?.size === 1 };
  };
}

/** Values by key, each once. */
function collected(pairs: readonly (readonly [string, string])[]): ReadonlyMap<string, ReadonlySet<string>> {
  const found = new Map<string, Set<string>>();
  for (const [key, value] of pairs) {
    const values = found.get(key) ?? new Set();
    found.set(key, values.add(value));
  }
  return found;
}

function machineChanges(resources: readonly ResourceChange[]): Causes["machines"] {
  const ofPool = new Map<string | undefined, string>();
  let ofAll: string | undefined;
  for (const change of resources) {
    const { type, kind, name, properties } = change;
    const keep = (pool: string | undefined, reason: string) => {
      if (!ofPool.has(pool)) ofPool.set(pool, `the machines of pool ${pool} are replaced${reason}`);
    };
    if (type === "aws:eks/nodeGroup:NodeGroup" && kind !== "create" && kind !== "update")
      keep(poolOfGroup(change), "");
    // docs/tasks/upgrade.md: an update with GPUs ends a machine before it starts the next one.
    if (
      type === "aws:ec2/launchTemplate:LaunchTemplate" &&
      kind === "update" &&
      properties.some(({ path }) => !/^(tags|tagsAll|updateDefaultVersion)\b/.test(path))
    )
      keep(
        /^(.+)-machines-template$/s.exec(name)?.[1],
        " one at a time, and with GPUs the old machine ends first",
      );
    if (type === "aws:ec2/instance:Instance" && kind !== "create")
      if (kind !== "update" || properties.some(({ path }) => path === "instanceType"))
        ofAll ??=
          kind === "update" ? "the machine stops and starts as another type" : "the machine is replaced";
  }
  return ({ pool }) => ofPool.get(pool) ?? ofAll;
}

export function poolOfGroup({ before, after }: ResourceChange): string | undefined {
  const { labels } = (after ?? before ?? {}) as { readonly labels?: Readonly<Record<string, string>> };
  return labels?.["engine-room/pool"];
}
