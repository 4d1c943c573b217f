/** Images of a stack. */
import type { Problem } from "../problems.ts";
import {
  type DockerImage,
  IMAGE_NAMES,
  type ImageName,
  type ImageOptions,
  imageSources,
  imageTag,
} from "./docker/images.ts";
import { plannedDatabases, type StackPlan } from "./stack-plan.ts";

/** Images that a plan's containers run, in the order of the table of images. */
export function neededImages(plan: Exclude<StackPlan, { platform: "local" }>): readonly ImageName[] {
  const needed = new Set<ImageName>([
    "services",
    ...(plan.tier === "cpu"
      ? (["cpu-models"] as const)
      : (["trtllm", ...(plan.encoders === null ? [] : (["encoders"] as const))] as const)),
    ...(plannedDatabases(plan)?.kind === "container" ? (["mongo", "qdrant"] as const) : []),
  ]);
  return IMAGE_NAMES.filter((name) => needed.has(name));
}

/** @throws Error if it was not given. */
export function imageNamed<Image extends { readonly name: ImageName }>(
  name: ImageName,
  images: readonly Image[],
): Image {
  const image = images.find((one) => one.name === name);
  if (image === undefined) throw new Error(`Missing image reference: the stack runs the image ${name}.`);
  return image;
}

/** An image as machines pull it. */
export interface ClusterImage {
  readonly name: ImageName;
  /** `registry/repository@sha256:…`; with a tag in a preview whose image was never pushed. */
  readonly reference: string;
}

/**
 * Images by the digests of the lock file: machines of a cluster or of EC2 build none, and a tag may mean another image tomorrow. An image without a
 * digest is a problem, and has the tag that `npx engine-room images --push` gives it, for previews.
 */
export function clusterImages(
  found: readonly DockerImage[],
  {
    triton,
    registry,
    isMirror,
  }: {
    readonly triton: ImageOptions["triton"];
    /** null for the registry of the lock file. */
    readonly registry: string | null;
    /** Whether the registry has copies of all images of this project that the lock file names. */
    readonly isMirror: boolean;
  },
): { readonly images: readonly ClusterImage[]; readonly problems: readonly Problem[] } {
  const isOwn = (name: ImageName) => imageSources[name].kind === "built";
  const images = found.map((image): ClusterImage => {
    const { name } = image;
    if (image.kind === "build")
      return {
        name,
        reference: `${registry ?? "engine-room"}/${name}:${imageTag(name, image.contentHash, triton)}`,
      };
    const { reference } = image;
    const isCopied = isMirror && registry !== null && isOwn(name);
    return {
      name,
      reference: isCopied ? `${registry}/${name}${reference.slice(reference.indexOf("@"))}` : reference,
    };
  });
  const missing = images.filter(({ reference }) => !reference.includes("@sha256:")).map(({ name }) => name);
  if (missing.length === 0) return { images, problems: [] };
  const needsRegistry = registry === null && missing.some(isOwn);
  const problem = {
    path: needsRegistry ? "images.registry" : "(images.lock.json)",
    value: registry ?? "(absent)",
    reason: `Images are pulled by their digests, and images.lock.json has no digest of this content for ${missing.join(", ")}.`,
    fix: `${needsRegistry ? "Name a registry that the stack reaches, and run" : "Run"} \`npx engine-room images --push\` once where Docker is.`,
  };
  return { images, problems: [problem] };
}
