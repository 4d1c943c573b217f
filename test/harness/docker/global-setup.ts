/**
 * One engine for all test files of the project `docker`, which also builds their images; or the reason why it can't
 * start.
 */

import type { TestProject } from "vitest/node";
import { tell } from "../progress.ts";
import { startEngine } from "./engine.ts";
import { buildAllImages } from "./images.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** The engine's socket, or why there is no engine. */
    docker: { readonly socketPath: string } | { readonly reason: string };
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const engine = await startEngine();
  if ("reason" in engine) {
    tell(`No Docker engine: ${engine.reason}. Its tests are skipped.`);
    project.provide("docker", { reason: engine.reason });
    return async () => {};
  }
  project.provide("docker", { socketPath: engine.socketPath });
  const builds = buildAllImages(engine.socketPath);
  return async () => {
    await engine.stop();
    await builds;
  };
}
