/** A lock file for stacks whose images have not been pushed. */
import { pulledImages } from "../../infra/image-inputs.ts";
import { lockKey } from "../../infra/plan/docker/images.ts";

/** Text of a lock file as after a push of the present images, which no test pulls. */
export function imageLock(plan: Parameters<typeof pulledImages>[0]): string {
  const { needed, inputs } = pulledImages(plan);
  const entries = needed.map((name) => [
    lockKey(name, inputs.triton),
    {
      contentHash: inputs.contentHashes[name],
      reference: `registry.example.org/${name}@sha256:${inputs.contentHashes[name]}`,
    },
  ]);
  return JSON.stringify({ version: 1, images: Object.fromEntries(entries) });
}
