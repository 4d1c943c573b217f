/** A stack as a flowchart of Mermaid, which GitHub and GitLab draw in Markdown: clients, gateway, servers on their pools, stores. */
import { plannedNodes } from "../../infra/plan/cost/pool-price.ts";
import type { GpuPlan } from "../../infra/plan/gpu-stack.ts";
import { plannedDatabases, type StackPlan } from "../../infra/plan/stack-plan.ts";

/** A box: its id, its label as lines, and its shape. */
interface Node {
  readonly id: string;
  readonly label: readonly string[];
  readonly shape?: "rounded" | "cylinder";
}

interface Group {
  readonly id: string;
  readonly label: readonly string[];
  readonly nodes: readonly Node[];
}

const SHAPES = { box: ["[", "]"], rounded: ["([", "])"], cylinder: ["[(", ")]"] } as const;

/** Lines from `flowchart LR` on, with a final newline; the same plan, the same bytes. */
export function mermaidChart(plan: StackPlan): string {
  const groups = plan.tier === "gpu" ? poolGroups(plan) : [cpuGroup(plan)];
  const hasEncoders = groups.some(({ nodes }) => nodes.some(({ id }) => id === "encoders"));
  const databases = plannedDatabases(plan);
  const store: Node | null =
    plan.tier === "gpu"
      ? { id: "store", label: ["engine store", storeWords(plan)], shape: "cylinder" }
      : null;
  const front: Node[] = [
    { id: "clients", label: ["clients"], shape: "rounded" },
    { id: "gateway", label: ["gateway", gatewayWords(plan)] },
    ...(databases === null
      ? []
      : [
          {
            id: "databases",
            label: ["MongoDB and vectors", DATABASES[databases.kind]],
            shape: "cylinder",
          } as const,
        ]),
    ...(store === null ? [] : [store]),
  ];
  const servers = groups.flatMap(({ nodes }) => nodes.map(({ id }) => id));
  const engines =
    plan.tier === "gpu"
      ? plan.models.flatMap(({ engine }, index) => (engine === null ? [] : [`model${index}`]))
      : [];
  const lines = [
    ...front.map(nodeLine),
    ...groups.flatMap(({ id, label, nodes }) => [
      `subgraph ${id}[${quoted(label)}]`,
      ...nodes.map((node) => `  ${nodeLine(node)}`),
      "end",
    ]),
    "clients --> gateway",
    ...servers.map((id) => `gateway --> ${id}`),
    ...(databases === null || !hasEncoders ? [] : ["gateway --> databases"]),
    ...engines.map((id) => `store -.-> ${id}`),
  ];
  return `flowchart LR\n${lines.map((line) => `  ${line}\n`).join("")}`;
}

const DATABASES = {
  mock: "servers of this project",
  container: "containers of MongoDB and Qdrant",
  external: "run elsewhere",
} as const;

/** A pool that runs none of the servers has none of its own; gateway and databases go where there is room. */
function poolGroups(plan: GpuPlan): Group[] {
  const { spec, models, encoders } = plan;
  return spec.pools.map((pool, index) => {
    const machines = `${plannedNodes(spec, pool)} × ${pool.instanceType ?? "machine"}`;
    const gpus = pool.gpu === null ? "no GPU" : `${pool.machine.gpus} × ${pool.gpu.name}`;
    const nodes = models.flatMap(({ name, spec: model, engine }, place): Node[] =>
      model.pool === pool.name
        ? [
            {
              id: `model${place}`,
              label: [
                `${name}${times(model.serving.replicas)}`,
                model.engine.model,
                engine === null ? `runtime ${model.serving.runtime}` : `engine ${engine.shortKey}`,
              ],
            },
          ]
        : [],
    );
    const own: Node[] =
      encoders !== null && spec.encoders?.pool === pool.name
        ? [
            {
              id: "encoders",
              label: [`encoders${times(spec.encoders.replicas)}`, `on the ${encoders.device.toUpperCase()}`],
            },
          ]
        : [];
    return {
      id: `pool${index}`,
      label: [`pool ${pool.name}`, `${machines}, ${gpus}`],
      nodes: [...nodes, ...own],
    };
  });
}

function cpuGroup(plan: Exclude<StackPlan, GpuPlan>): Group {
  const place = { local: "this machine", docker: "Docker host", kubernetes: "cluster" }[plan.platform];
  return {
    id: "machines",
    label: [place, "CPU"],
    nodes: [
      ...plan.models.map(({ name, model }, index) => ({ id: `model${index}`, label: [name, model] })),
      { id: "encoders", label: ["encoders", "on the CPU"] },
    ],
  };
}

function gatewayWords(plan: StackPlan): string {
  if (plan.platform === "local") return "this machine";
  if (plan.platform === "aws") {
    const { gateway } = plan.config;
    return gateway.exposure === "public" ? `https://${gateway.hostname}` : "internal load balancer";
  }
  if ("cluster" in plan) return plan.cluster.ingress === null ? "in the cluster" : plan.cluster.ingress.host;
  return "Docker host";
}

function storeWords({ spec: { store } }: GpuPlan): string {
  const kind = { efs: "EFS", volume: "volume", folder: "folder of the host" }[store.kind];
  return store.sizeGiB === null ? kind : `${kind}, ${store.sizeGiB} GiB`;
}

function times(replicas: number): string {
  return replicas === 1 ? "" : ` × ${replicas}`;
}

function nodeLine({ id, label, shape }: Node): string {
  const [open, close] = SHAPES[shape ?? "box"];
  return `${id}${open}${quoted(label)}${close}`;
}

/** Quoted, as a name may be a keyword of Mermaid, such as `end`; what HTML or Mermaid would read is written as an entity. */
function quoted(lines: readonly string[]): string {
  const escaped = lines.map((line) => line.replace(/[#"<>&]/g, (sign) => `#${sign.charCodeAt(0)};`));
  return `"${escaped.join("<br/>")}"`;
}
