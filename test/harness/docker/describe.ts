import { describe, inject } from "vitest";
import { DockerApi } from "./api.ts";

interface EngineForTests {
  readonly socketPath: string;
  readonly api: DockerApi;
}

/** `describe` with the engine; where there is none its tests are skipped, and their title says why. */
export function describeWithEngine(title: string, tests: (engine: EngineForTests) => void): void {
  const engine = inject("docker");
  if ("reason" in engine) {
    describe.skip(`${title} (skipped: ${engine.reason})`, () =>
      tests({ socketPath: "", api: new DockerApi("") }));
    return;
  }
  const { socketPath } = engine;
  describe(title, () => tests({ socketPath, api: new DockerApi(socketPath) }));
}
