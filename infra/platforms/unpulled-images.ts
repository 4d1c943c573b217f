/** Images that nobody has pushed yet. */
import * as pulumi from "@pulumi/pulumi";
import { ConfigError, type Problem } from "../problems.ts";

/**
 * @param problems - Of images without a digest.
 * @throws ConfigError with them. A preview shows such a stack all the same, and warns: its images can be made after it was
 * looked at.
 */
export function refuseUnpulled(problems: readonly Problem[]): void {
  if (problems.length > 0 && !pulumi.runtime.isDryRun() && !isForRegistries())
    throw new ConfigError(problems);
  for (const { reason, fix } of problems) void pulumi.log.warn(`${reason} ${fix}`);
}

/** Repositories come before the images in them: `npm run up -- --registries` makes nothing else. */
function isForRegistries(): boolean {
  return process.env.ENGINE_ROOM_ONLY_REGISTRIES === "1";
}
