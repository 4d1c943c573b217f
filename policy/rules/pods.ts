/** Rules about containers: GPU limits, and images by digest. */
import {
  at,
  type Check,
  type Finding,
  isMapping,
  listAt,
  type Rule,
  type StackFacts,
  textAt,
  UNKNOWN,
  undecided,
  violatedIf,
} from "../rule.ts";

type ContainerCheck = (
  name: string,
  container: unknown,
  pod: unknown,
  facts: StackFacts,
) => readonly Finding[];

/** The same check for each container, init containers too, in each kind of workload. */
function forContainers(check: ContainerCheck): Readonly<Record<string, Check>> {
  const checkAt =
    (...path: readonly string[]): Check =>
    ({ inputs }, { facts }) => {
      const pod = at(inputs, ...path);
      if (pod === UNKNOWN) return undecided("the pod");
      return [...listAt(pod, "initContainers"), ...listAt(pod, "containers")].flatMap((container) =>
        check(textAt(container, "name") ?? "without a name", container, pod, facts),
      );
    };
  const ofTemplate = checkAt("spec", "template", "spec");
  return {
    "kubernetes:core/v1:Pod": checkAt("spec"),
    "kubernetes:apps/v1:Deployment": ofTemplate,
    "kubernetes:apps/v1:StatefulSet": ofTemplate,
    "kubernetes:apps/v1:DaemonSet": ofTemplate,
    "kubernetes:apps/v1:ReplicaSet": ofTemplate,
    "kubernetes:batch/v1:Job": ofTemplate,
    "kubernetes:batch/v1:CronJob": checkAt("spec", "jobTemplate", "spec", "template", "spec"),
  };
}

/** Resources by which device plugins give out whole GPUs, shares and partitions. */
const GPU_RESOURCE = /^(nvidia|amd)\.com\/|\/gpu(\.|$)/;

/** Images whose programs end at once without a GPU: this project's, and NVIDIA's that they are built on. */
const GPU_IMAGE = /(^|\/)trtllm[:@]|tritonserver:[^/]*-trtllm-/;

function gpuKeys(resources: unknown): readonly string[] {
  return isMapping(resources) ? Object.keys(resources).filter((key) => GPU_RESOURCE.test(key)) : [];
}

/** Why a container is expected to use GPUs; undefined: it is not. */
function reasonForGpu(container: unknown, pod: unknown): string | undefined {
  const [requested] = gpuKeys(at(container, "resources", "requests"));
  if (requested !== undefined) return `requests ${requested}`;
  const [limited] = gpuKeys(at(container, "resources", "limits"));
  if (limited !== undefined) return `takes ${limited}`;
  const visible = listAt(container, "env").find((entry) => at(entry, "name") === "NVIDIA_VISIBLE_DEVICES");
  const devices = String(at(visible, "value"));
  if (visible !== undefined && !["", "void", "none"].includes(devices))
    return `sets NVIDIA_VISIBLE_DEVICES to ${devices}`;
  if (at(pod, "runtimeClassName") === "nvidia") return "runs with the runtime class nvidia";
  // A container that only keeps the image on its machine runs none of these programs.
  if (listAt(container, "command")[0] === "sleep") return undefined;
  const image = textAt(container, "image") ?? "";
  return GPU_IMAGE.test(image) ? `runs ${image}` : undefined;
}

/**
 * Without a limit the scheduler counts no GPUs, and NVIDIA's runtime may show a container all GPUs of the machine, those of
 * other pods too. Without requests of CPU and memory it is the first to be evicted from a full machine.
 * https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/
 */
export const gpuPodHasLimits: Rule = {
  description: "Containers with GPUs have a GPU limit, and CPU and memory requests.",
  scope: "resource",
  checks: forContainers((name, container, pod) => {
    const reason = reasonForGpu(container, pod);
    if (reason === undefined) return [];
    const limits = at(container, "resources", "limits");
    const hasLimit = limits === UNKNOWN || gpuKeys(limits).some((key) => Number(at(limits, key)) !== 0);
    const missing = [
      ...(hasLimit ? [] : ["limits of a GPU resource such as nvidia.com/gpu"]),
      ...["cpu", "memory"]
        .filter((key) => at(container, "resources", "requests", key) === undefined)
        .map((key) => `requests.${key}`),
    ];
    return [
      ...(limits === UNKNOWN ? undecided(`resources.limits of the container ${name}`) : []),
      ...violatedIf(
        missing.length > 0,
        `The container ${name} ${reason}, and its resources lack ${missing.join(", ")}.`,
        "Set them: a pod without a GPU limit may see the GPUs of others, and one without requests is evicted first.",
      ),
    ];
  }),
};

const REMOTE_IMAGE = "docker:index/remoteImage:RemoteImage";

/** A digest, or the id of an image that a Docker host built. */
const EXACT_IMAGE = /(@|^)sha256:[0-9a-f]{64}$/;

/**
 * Form of an image of infra/plan/docker/images.ts that has no digest yet, for the stack of another commit: what this project builds
 * ends with twelve digits of its content's hash, and databases' own images have a version. Anybody's image may have it.
 */
const AWAITED_IMAGE =
  /(^|\/)(services|cpu-models|trtllm|encoders):(\d\d\.\d\d-)?[0-9a-f]{12}$|^docker\.io\/(library\/mongo|qdrant\/qdrant):[\w.-]+$/;

function inexactImage(user: string, image: unknown): readonly Finding[] {
  if (image === UNKNOWN) return undecided(`The image of the ${user}`);
  return violatedIf(
    typeof image !== "string" || !EXACT_IMAGE.test(image),
    `The ${user} runs ${typeof image === "string" ? image : "no image"}, which names no digest.`,
    "Run `npx engine-room images --push` where Docker is, which writes digests to images.lock.json; for an image of others add `@sha256:…` to its name.",
  );
}

/** An image that is built after a merge has no digest before. In clusters and on EC2, which build no images, `up` refuses such a stack. */
function podImage(user: string, image: unknown, { awaitedImages }: StackFacts): readonly Finding[] {
  if (typeof image !== "string") return inexactImage(user, image);
  if (!(awaitedImages?.includes(image) ?? AWAITED_IMAGE.test(image))) return inexactImage(user, image);
  return [
    {
      reason: `The ${user} runs ${image}, and images.lock.json has no digest of this content.`,
      fix: "A pull request can be merged without it: the workflow `images` then builds the image and opens a pull request with its digest, as `npx engine-room images --push` does by hand. `up` refuses the stack until then.",
      isUndecided: true,
    },
  ];
}

/** A tag may mean another image tomorrow, and an engine loads only in the image that built it. */
export const imageHasDigest: Rule = {
  description: "Containers run images that are named by digest or id.",
  // Images may be built for a single pull request.
  previewLevel: "advisory",
  scope: "stack",
  checks: {
    ...forContainers((name, container, _pod, facts) =>
      podImage(`container ${name}`, at(container, "image"), facts),
    ),
    "docker:index/container:Container": ({ name, inputs, propertyDependencies }) => {
      // The id of an image that is checked itself.
      const isOfRemoteImage = propertyDependencies.image?.some((urn) => urn.includes(`${REMOTE_IMAGE}::`));
      return inputs.image === UNKNOWN && isOfRemoteImage
        ? []
        : inexactImage(`container ${name}`, inputs.image);
    },
    [REMOTE_IMAGE]: ({ name, inputs }) =>
      inputs.build === undefined ? inexactImage(`image ${name}`, inputs.name) : [],
  },
};
