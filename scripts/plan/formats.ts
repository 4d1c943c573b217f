/** A plan in the formats of other programs: a chart of Mermaid, and values of the device plugin's Helm chart. */
import { stringify } from "yaml";
import { plannedNodes } from "../../infra/plan/cost/pool-price.ts";
import type { GpuPlan } from "../../infra/plan/gpu-stack.ts";
import { devicePluginConfigs } from "../../infra/plan/kubernetes/capacity.ts";
import { plannedDatabases, type StackPlan } from "../../infra/plan/stack-plan.ts";

/** Machines, and the servers on them: the id and the lines of each box. */
interface Group {
  readonly label: readonly string[];
  readonly servers: readonly (readonly [id: string, ...label: string[]])[];
}

const DATABASES = {
  mock: "servers of this project",
  container: "containers of MongoDB and Qdrant",
  external: "run elsewhere",
} as const;

/**
 * A stack as a flowchart, which GitHub and GitLab draw in Markdown: clients, gateway, servers on their pools, stores.
 *
 * @returns Lines from `flowchart LR` on, with a final newline; the same plan, the same bytes.
 */
export function mermaidChart(plan: StackPlan): string {
  const groups = plan.tier === "gpu" ? poolGroups(plan) : [cpuGroup(plan)];
  const servers = groups.flatMap((group) => group.servers.map(([id]) => id));
  const databases = plannedDatabases(plan);
  const built = plan.tier === "gpu" ? plan.models.map(({ engine }) => engine !== null) : [];
  const lines = [
    `clients([${quoted("clients")}])`,
    `gateway[${quoted("gateway", gatewayWords(plan))}]`,
    ...(databases === null
      ? []
      : [`databases[(${quoted("MongoDB and vectors", DATABASES[databases.kind])})]`]),
    ...(plan.tier === "gpu" ? [`store[(${quoted("engine store", storeWords(plan))})]`] : []),
    ...groups.flatMap((group, index) => [
      `subgraph pool${index}[${quoted(...group.label)}]`,
      ...group.servers.map(([id, ...label]) => `  ${id}[${quoted(...label)}]`),
      "end",
    ]),
    "clients --> gateway",
    ...servers.map((id) => `gateway --> ${id}`),
    ...(databases !== null && servers.includes("encoders") ? ["gateway --> databases"] : []),
    ...built.flatMap((isBuilt, index) => (isBuilt ? [`store -.-> model${index}`] : [])),
  ];
  return `flowchart LR\n${lines.map((line) => `  ${line}\n`).join("")}`;
}

function poolGroups({ spec, models, encoders }: GpuPlan): Group[] {
  const times = (replicas: number) => (replicas === 1 ? "" : ` × ${replicas}`);
  return spec.pools.map((pool) => {
    const gpus = pool.gpu === null ? "no GPU" : `${pool.machine.gpus} × ${pool.gpu.name}`;
    return {
      label: [
        `pool ${pool.name}`,
        `${plannedNodes(spec, pool)} × ${pool.instanceType ?? "machine"}, ${gpus}`,
      ],
      servers: [
        ...models.flatMap(({ name, spec: model, engine }, index): Group["servers"] =>
          model.pool !== pool.name
            ? []
            : [
                [
                  `model${index}`,
                  `${name}${times(model.serving.replicas)}`,
                  model.engine.model,
                  engine === null ? `runtime ${model.serving.runtime}` : `engine ${engine.shortKey}`,
                ],
              ],
        ),
        ...(encoders !== null && spec.encoders?.pool === pool.name
          ? ([
              [
                "encoders",
                `encoders${times(spec.encoders.replicas)}`,
                `on the ${encoders.device.toUpperCase()}`,
              ],
            ] as const)
          : []),
      ],
    };
  });
}

function cpuGroup(plan: Exclude<StackPlan, GpuPlan>): Group {
  const place = { local: "this machine", docker: "Docker host", kubernetes: "cluster" }[plan.platform];
  return {
    label: [place, "CPU"],
    servers: [
      ...plan.models.map(({ name, model }, index) => [`model${index}`, name, model] as const),
      ["encoders", "encoders", "on the CPU"],
    ],
  };
}

function gatewayWords(plan: StackPlan): string {
  if (plan.platform === "local") return "this machine";
  if (plan.platform === "aws") {
    const { gateway } = plan.config;
    return gateway.exposure === "public" ? `https://${gateway.hostname}` : "internal load balancer";
  }
  if ("cluster" in plan) return plan.cluster.ingress?.host ?? "in the cluster";
  return "Docker host";
}

function storeWords({ spec: { store } }: GpuPlan): string {
  const kind = { efs: "EFS", volume: "volume", folder: "folder of the host" }[store.kind];
  return store.sizeGiB === null ? kind : `${kind}, ${store.sizeGiB} GiB`;
}

/**
 * Quoted, as a name may be a keyword of Mermaid, such as `end`; characters of HTML or Mermaid are written as entities.
 */
function quoted(...lines: readonly string[]): string {
  const escaped = lines.map((line) => line.replace(/[#"<>&]/g, (sign) => `#${sign.charCodeAt(0)};`));
  return `"${escaped.join("<br/>")}"`;
}

/** Label by which a machine selects one of several configurations. */
const CONFIG_LABEL = "nvidia.com/device-plugin.config";

/**
 * YAML with one configuration a pool, and in comments the command that gives it to the pool's machines. The chart is
 * `nvidia-device-plugin`; the GPU operator takes the texts below `map` as the data of a ConfigMap.
 */
export function devicePluginValues(plan: GpuPlan): string {
  const access = "cluster" in plan ? plan.cluster.pools : {};
  const configs = devicePluginConfigs(plan.spec.pools, (pool) => access[pool]?.gpuResource ?? null);
  const pools = Object.keys(configs).filter((pool) => configs[pool] !== null);
  const others = Object.keys(configs).filter((pool) => configs[pool] === null);
  // A machine without a label has the default configuration.
  const only = pools.length === 1 && others.length === 0 ? pools[0] : undefined;
  const labels = (only === undefined ? pools : []).map((pool) => {
    const selector = Object.entries(access[pool]?.nodeSelector ?? {}).map((pair) => pair.join("="));
    const machines = selector.length === 0 ? "NODE …" : `--selector=${selector.join(",")}`;
    return `# kubectl label nodes --overwrite ${machines} ${CONFIG_LABEL}=${pool}`;
  });
  const comments = [
    "# Values of NVIDIA's Helm chart nvidia-device-plugin: what the plan of the pools assumes.",
    ...labels,
    ...others.map(
      (pool) =>
        `# The pool ${pool} is left out: the plugin has no way to call its GPUs ${access[pool]?.gpuResource}.`,
    ),
  ];
  const values = {
    config: {
      // The chart refuses several without a default for machines that select none; those have whole GPUs then.
      ...(only === undefined ? { fallbackStrategies: ["empty"] } : { default: only }),
      map: Object.fromEntries(pools.map((pool) => [pool, stringify(configs[pool])])),
    },
  };
  return `${comments.join("\n")}\n${stringify(values, { blockQuote: "literal" })}`;
}
