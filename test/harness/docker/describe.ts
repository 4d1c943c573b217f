import { describe, inject } from "vitest";
import { needs } from "../requirements.ts";
import { DockerApi } from "./api.ts";

interface EngineForTests {
  readonly socketPath: string;
  readonly api: DockerApi;
}

/**
 * `describe` with the engine. Without an engine its tests are skipped for that reason.
 *
 * @param missing - Another reason to skip them.
 */
export function describeWithEngine(
  title: string,
  tests: (engine: EngineForTests) => void,
  missing?: string,
): void {
  const provided = inject("docker");
  const engine = missing === undefined ? provided : { reason: missing };
  if ("reason" in engine) {
    describe(title, needs(engine.reason), () => tests({ socketPath: "", api: new DockerApi("") }));
    return;
  }
  const { socketPath } = engine;
  describe(title, () => tests({ socketPath, api: new DockerApi(socketPath) }));
}
