import { afterAll, describe, inject } from "vitest";
import { needs } from "../requirements.ts";
import { ApiServer } from "./api-server.ts";
import type { Cluster, Connection } from "./cluster.ts";
import type { BuiltModules } from "./go-build.ts";

interface ClusterForTests {
  readonly api: ApiServer;
  readonly connection: Connection;
  readonly modules: BuiltModules;
  /** Process ids of the cluster's own programs. */
  readonly pids: Cluster["pids"];
}

/**
 * `describe` with the cluster. Without a cluster its tests are skipped for that reason.
 *
 * @param missing - Another reason to skip them.
 */
export function describeWithCluster(
  title: string,
  tests: (cluster: ClusterForTests) => void,
  missing?: string,
): void {
  const provided = inject("kubernetes");
  const cluster = missing === undefined ? provided : { reason: missing };
  if ("reason" in cluster) {
    // Skipped tests do not use it.
    describe(title, needs(cluster.reason), () => tests({} as ClusterForTests));
    return;
  }
  describe(title, () => {
    const api = new ApiServer(cluster.connection);
    afterAll(() => api.close());
    tests({ api, ...cluster });
  });
}
