/**
 * Runs once for all test files of the project `aws`: installs their Python packages before processes need them at the
 * same time, and starts a stand-in for AWS for each worker.
 */

import type { TestProject } from "vitest/node";
import { tell } from "../progress.ts";
import { startMoto } from "./moto.ts";
import { awsPython } from "./python.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Stand-ins, by the worker's number from 0. */
    readonly motoUrls: readonly string[];
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  await awsPython(tell);
  const workers = Number(project.config.maxWorkers);
  const motos = await Promise.all(Array.from({ length: workers }, () => startMoto()));
  project.provide(
    "motoUrls",
    motos.map(({ url }) => url),
  );
  return async () => {
    await Promise.all(motos.map((moto) => moto.stop()));
  };
}
