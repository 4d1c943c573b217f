/** Images of a stack. */
import { IMAGE_NAMES, type ImageName } from "./docker/types.ts";
import { plannedDatabases } from "./gateway-config.ts";
import type { StackPlan } from "./stack-plan.ts";

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

/** @throws Error where it was not given. */
export function imageNamed<Image extends { readonly name: ImageName }>(
  name: ImageName,
  images: readonly Image[],
): Image {
  const image = images.find((one) => one.name === name);
  if (image === undefined) throw new Error(`Missing image reference: the stack runs the image ${name}.`);
  return image;
}
