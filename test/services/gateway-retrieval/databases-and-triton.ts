/** What retrieval stands on, and a gateway on it, for all tests of a file. */
import { afterAll, beforeAll, beforeEach } from "vitest";
import type { GatewayConfigInput } from "../../../containers/services/gateway/src/config.ts";
import { type RunningGateway, startGateway } from "../gateway/support.ts";
import { type FakeTriton, startFakeTriton } from "./fake-triton.ts";
import { type Databases, retrievalConfig, startDatabases } from "./support.ts";

export interface DatabasesAndTriton {
  readonly databases: () => Databases;
  /** It has been asked nothing when a test begins. */
  readonly triton: () => FakeTriton;
  /** Of a gateway on both. */
  readonly config: (more?: Partial<GatewayConfigInput>) => GatewayConfigInput;
}

/** Both databases, empty, and a Triton of fakes. */
export function useDatabasesAndTriton(): DatabasesAndTriton {
  let databases: Databases;
  let triton: FakeTriton;
  beforeAll(async () => {
    [databases, triton] = await Promise.all([startDatabases(), startFakeTriton()]);
  });
  afterAll(async () => {
    await Promise.all([databases?.dispose(), triton?.close()]);
  });
  beforeEach(() => {
    triton.encoderCalls.length = 0;
    triton.generations.length = 0;
  });
  return {
    databases: () => databases,
    triton: () => triton,
    config: (more) =>
      retrievalConfig(triton, { mongo: databases.mongo.port, vector: databases.vector.port }, more),
  };
}

/** The same with a gateway. */
export function useRetrieval(): DatabasesAndTriton & { readonly gateway: () => RunningGateway } {
  const parts = useDatabasesAndTriton();
  let gateway: RunningGateway;
  beforeAll(async () => {
    gateway = await startGateway(parts.config());
  });
  afterAll(async () => {
    await gateway?.app.close();
  });
  return { ...parts, gateway: () => gateway };
}
