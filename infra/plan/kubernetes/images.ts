/** Which images a cluster pulls. */
import type { Problem } from "../../problems.ts";
import { imageSource } from "../docker/image-sources.ts";
import { type ImageOptions, imageTag } from "../docker/images.ts";
import { type DockerImage, IMAGE_NAMES, type ImageName } from "../docker/types.ts";
import type { ClusterPlan } from "./cluster-plan.ts";
import type { ClusterImage } from "./types.ts";

/** Images that a plan's pods run, in the order of the table of images. */
export function clusterImageNames(plan: ClusterPlan): readonly ImageName[] {
  const needed = new Set<ImageName>([
    "services",
    ...(plan.tier === "cpu"
      ? (["cpu-models"] as const)
      : (["trtllm", ...(plan.encoders === null ? [] : (["encoders"] as const))] as const)),
    ...(plan.cluster.databases?.kind === "container" ? (["mongo", "qdrant"] as const) : []),
  ]);
  return IMAGE_NAMES.filter((name) => needed.has(name));
}

/** Where images are pulled from. */
interface PullSource {
  readonly triton: ImageOptions["triton"];
  /** null: whichever the lock file names. */
  readonly registry: string | null;
  /** Whether the registry has what any other has that the lock file names: an account's own, which images are copied to. */
  readonly isMirror: boolean;
}

/**
 * Every image by its digest, which the lock file has: a cluster builds none, and a tag may mean another image tomorrow. One
 * that is missing there is a problem, and stands under the tag that `npm run images -- --push` gives it, for previews.
 */
export function clusterImages(
  found: readonly DockerImage[],
  { triton, registry, isMirror }: PullSource,
): { readonly images: readonly ClusterImage[]; readonly problems: readonly Problem[] } {
  const missing = found.filter((image) => image.kind === "build" || !image.reference.includes("@sha256:"));
  return {
    images: found.map((image) => ({
      name: image.name,
      reference:
        image.kind === "locked"
          ? isMirror && registry !== null && imageSource(image.name).kind === "built"
            ? inRegistry(image, registry)
            : image.reference
          : `${registry ?? "engine-room"}/${image.name}:${imageTag(image.name, image.contentHash, triton)}`,
    })),
    problems:
      missing.length === 0
        ? []
        : [
            missingProblem(
              missing.map(({ name }) => name),
              registry,
            ),
          ],
  };
}

/** The same bytes, pulled from elsewhere. */
function inRegistry(
  { name, reference }: { readonly name: ImageName; readonly reference: string },
  registry: string,
) {
  return `${registry}/${name}${reference.slice(reference.indexOf("@"))}`;
}

function missingProblem(names: readonly ImageName[], registry: string | null): Problem {
  const isBuilt = names.some((name) => imageSource(name).kind === "built");
  return {
    path: registry === null && isBuilt ? "images.registry" : "(images.lock.json)",
    value: registry ?? "(absent)",
    reason: `Images are pulled by their digests, and images.lock.json has none of this content for ${names.join(", ")}.`,
    fix: `${registry === null && isBuilt ? "Name a registry that the stack reaches, and run" : "Run"} \`npm run images -- --push\` once where Docker is.`,
  };
}
