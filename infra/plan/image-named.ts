/** The images of a stack by name. */
import type { ImageName } from "./docker/types.ts";

/** @throws Error where it was not given. */
export function imageNamed<Image extends { readonly name: ImageName }>(
  name: ImageName,
  images: readonly Image[],
): Image {
  const image = images.find((one) => one.name === name);
  if (image === undefined)
    throw new Error(`The stack runs the image ${name}, and none of that name was given.`);
  return image;
}
