/** One cluster for all test files of the project `cluster`, or the reason why it can't start. */

import type { TestProject } from "vitest/node";
import { tell } from "../progress.ts";
import { missingPulumiPrograms } from "../pulumi-programs.ts";
import { ApiServer } from "./api-server.ts";
import { applyAll, customResourceDefinitions } from "./apply.ts";
import { type Cluster, type Connection, startCluster } from "./cluster.ts";
import { type BuiltModules, buildGoModules } from "./go-build.ts";
import { CLUSTER_MODULES } from "./go-modules.ts";

declare module "vitest" {
  interface ProvidedContext {
    kubernetes:
      | {
          readonly connection: Connection;
          readonly modules: BuiltModules;
          readonly pids: Cluster["pids"];
        }
      | { readonly reason: string };
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const modules =
    process.platform === "linux" ? await buildGoModules(CLUSTER_MODULES, tell) : { reason: "it takes Linux" };
  if ("reason" in modules) {
    tell(`No Kubernetes cluster: ${modules.reason}. Its tests are skipped.`);
    project.provide("kubernetes", modules);
    return async () => {};
  }
  const started = performance.now();
  const cluster = await startCluster(modules);
  try {
    const api = new ApiServer(cluster.connection);
    await applyAll(api, customResourceDefinitions(modules.crds));
    api.close();
  } catch (error) {
    await cluster.stop();
    throw error;
  }
  const seconds = (performance.now() - started) / 1000;
  tell(`Started a Kubernetes cluster at ${cluster.connection.server} in ${seconds.toFixed(1)} s`);
  tell(waysUp(missingPulumiPrograms("kubernetes")));
  const { connection, pids } = cluster;
  project.provide("kubernetes", { connection, modules, pids });
  return () => cluster.stop();
}

/** Sentence about the ways by which this run brings up stacks. @param missing - Reason why the CLI can't. */
function waysUp(missing: string | undefined): string {
  return missing === undefined
    ? "Stacks come up by the Pulumi CLI (`up`), and as rendered objects through the API"
    : `Stacks come up as rendered objects through the API alone, not by the Pulumi CLI: ${missing}`;
}
