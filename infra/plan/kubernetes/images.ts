/** Which images a cluster pulls. */
import type { Problem } from "../../problems.ts";
import { imageSource } from "../docker/image-sources.ts";
import { type ImageOptions, imageTag } from "../docker/images.ts";
import type { DockerImage, ImageName } from "../docker/types.ts";

/** An image as the cluster pulls it. */
export interface ClusterImage {
  readonly name: ImageName;
  /** `registry/repository@sha256:…`; with a tag in a preview whose image was never pushed. */
  readonly reference: string;
}

/**
 * Images by the digests of the lock file: a cluster builds none, and a tag may mean another image tomorrow. An image without a
 * digest is a problem, and has the tag that `npm run images -- --push` gives it, for previews.
 */
export function clusterImages(
  found: readonly DockerImage[],
  {
    triton,
    registry,
    isMirror,
  }: {
    readonly triton: ImageOptions["triton"];
    /** null: those of the lock file. */
    readonly registry: string | null;
    /** Whether the registry has copies of all images of this project that the lock file names. */
    readonly isMirror: boolean;
  },
): { readonly images: readonly ClusterImage[]; readonly problems: readonly Problem[] } {
  const isOwn = (name: ImageName) => imageSource(name).kind === "built";
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
    reason: `Images are pulled by their digests, and images.lock.json has none of this content for ${missing.join(", ")}.`,
    fix: `${needsRegistry ? "Name a registry that the stack reaches, and run" : "Run"} \`npm run images -- --push\` once where Docker is.`,
  };
  return { images, problems: [problem] };
}
