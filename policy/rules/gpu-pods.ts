/**
 * A container that uses GPUs says how many it may take: without a limit the scheduler counts none, and NVIDIA's runtime may
 * show it all GPUs of the machine, those of other pods too. It also says what CPU and memory it needs, or it is the first
 * that a full machine ends.
 * https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/
 */
import { podContainers, podSpec } from "../containers.ts";
import { type ResourceFinding, type Rule, UNKNOWN, undecided } from "../rule.ts";
import { at, isMapping, listAt, textAt } from "../values.ts";

/** Resources by which device plugins give out GPUs: whole ones, shares, partitions. */
const GPU_RESOURCE = /^(nvidia|amd)\.com\/|\/gpu(\.|$)/;

/** Images whose programs end at once without a GPU: this project's, and NVIDIA's that they are built on. */
const GPU_ONLY = /(^|\/)trtllm[:@]|tritonserver:[^/]*-trtllm-/;

function gpuKeys(resources: unknown): readonly string[] {
  return isMapping(resources) ? Object.keys(resources).filter((key) => GPU_RESOURCE.test(key)) : [];
}

/** Why a container is taken for one that uses GPUs; undefined: it is not. */
function reasonForGpu(spec: unknown, container: unknown): string | undefined {
  const [requested] = gpuKeys(at(container, "resources", "requests"));
  if (requested !== undefined) return `requests ${requested}`;
  const [limited] = gpuKeys(at(container, "resources", "limits"));
  if (limited !== undefined) return `takes ${limited}`;
  const visible = listAt(container, "env").find((entry) => at(entry, "name") === "NVIDIA_VISIBLE_DEVICES");
  const devices = at(visible, "value");
  if (visible !== undefined && !["", "void", "none"].includes(String(devices)))
    return `sets NVIDIA_VISIBLE_DEVICES to ${String(devices)}`;
  if (textAt(spec, "runtimeClassName") === "nvidia") return "runs with the runtime class nvidia";
  const image = textAt(container, "image") ?? "";
  return GPU_ONLY.test(image) ? `runs ${image}` : undefined;
}

function containerFindings(spec: unknown, container: unknown): readonly ResourceFinding[] {
  const reason = reasonForGpu(spec, container);
  if (reason === undefined) return [];
  const name = textAt(container, "name") ?? "without a name";
  if (at(container, "resources") === UNKNOWN) return [undecided(`resources of the container ${name}`)];
  const limits = at(container, "resources", "limits");
  const missing = [
    ...(gpuKeys(limits).some((key) => isMapping(limits) && Number(limits[key]) !== 0) || limits === UNKNOWN
      ? []
      : ["limits of a GPU resource such as nvidia.com/gpu"]),
    ...["cpu", "memory"]
      .filter((key) => at(container, "resources", "requests", key) === undefined)
      .map((key) => `requests.${key}`),
  ];
  const open = limits === UNKNOWN ? [undecided(`resources.limits of the container ${name}`)] : [];
  if (missing.length === 0) return open;
  return [
    ...open,
    {
      reason: `The container ${name} ${reason}, and its resources lack ${missing.join(", ")}.`,
      fix: "Set them: a pod without a GPU's limit may see the GPUs of others, and one without requests is ended first.",
    },
  ];
}

export const gpuPodHasLimits: Rule = {
  description: "Containers with GPUs have a limit of GPUs, and requests of CPU and memory.",
  scope: "resource",
  check(resource) {
    const spec = podSpec(resource);
    if (spec === UNKNOWN) return [undecided("the pod")];
    return podContainers(spec).flatMap((container) => containerFindings(spec, container));
  },
};
