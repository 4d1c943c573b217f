/** The device plugin's configuration for a stack's pools, as values of its Helm chart. */
import { stringify } from "yaml";
import type { GpuPlan } from "../../infra/plan/gpu-stack.ts";
import { devicePluginConfigs } from "../../infra/plan/kubernetes/capacity.ts";

/** Label by which a machine chooses one of several configurations. */
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
  // Without a label a machine has the default one.
  const only = pools.length === 1 && others.length === 0 ? pools[0] : undefined;
  const comments = [
    "# Values of NVIDIA's Helm chart nvidia-device-plugin: what the plan of the pools assumes.",
    ...(only === undefined
      ? pools.map((pool) => {
          const labels = Object.entries(access[pool]?.nodeSelector ?? {}).map((one) => one.join("="));
          const machines = labels.length === 0 ? "NODE …" : `--selector=${labels.join(",")}`;
          return `# kubectl label nodes --overwrite ${machines} ${CONFIG_LABEL}=${pool}`;
        })
      : []),
    ...others.map(
      (pool) =>
        `# The pool ${pool} is left out: the plugin has no way to call its GPUs ${access[pool]?.gpuResource}.`,
    ),
  ];
  const values = {
    config: {
      // The chart refuses several without one for machines that choose none; those give whole GPUs then.
      ...(only === undefined ? { fallbackStrategies: ["empty"] } : { default: only }),
      map: Object.fromEntries(pools.map((pool) => [pool, stringify(configs[pool])])),
    },
  };
  return `${comments.join("\n")}\n${stringify(values, { blockQuote: "literal" })}`;
}
