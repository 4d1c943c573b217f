/** Databases, image hosts and limits in the configuration. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parseConfig } from "../../../containers/services/gateway/src/config.ts";
import {
  databasesSchema,
  readDatabaseSecrets,
} from "../../../containers/services/gateway/src/retrieval-config.ts";
import { configOf, startGateway } from "../gateway/support.ts";
import { retrievalConfig } from "./support.ts";

describe("the configuration", () => {
  const config = (databasesConfig: object, more: object = {}) => ({
    ...configOf({ encoders: 1, model: 2 }),
    databases: databasesConfig,
    ...more,
  });
  const vectorConfig = { url: "http://127.0.0.1:6333" };

  it.each<[string, object, string]>([
    [
      "two addresses",
      config({ mongo: { uri: "mongodb://a", uriFile: "/x" }, vector: vectorConfig }),
      "keep one",
    ],
    ["a password", config({ mongo: { uri: "mongodb://u:hunter2@a" }, vector: vectorConfig }), "uriFile"],
    ["another protocol", config({ mongo: { uri: "http://a" }, vector: vectorConfig }), "mongodb://"],
    [
      "no encoders",
      config({ mongo: { uri: "mongodb://a" }, vector: vectorConfig }, { encoders: undefined }),
      "found by their vectors",
    ],
    [
      "an unknown answer model",
      { ...configOf({ encoders: 1, model: 2 }), retrieval: { answerModel: "x" } },
      "smollm2, base-model",
    ],
    [
      "more matches than allowed",
      { ...configOf({ encoders: 1, model: 2 }), retrieval: { topK: 10, maxTopK: 5 } },
      "use 5 or less",
    ],
    [
      "an image host that is an address",
      { ...configOf({ encoders: 1, model: 2 }), imageHosts: ["10.0.0.1"] },
      "only names",
    ],
  ])("refuses %s", (_what, values, message) => {
    expect(() => parseConfig(values)).toThrow(message);
    expect(() => parseConfig(values)).not.toThrow("hunter2");
  });

  it("takes the address from a file, or from the environment before all else", () => {
    const folder = mkdtempSync(join(tmpdir(), "gateway-secrets-"));
    const uriFile = join(folder, "uri");
    const read = (mongo: object, environment = {}) =>
      readDatabaseSecrets(
        databasesSchema.parse({ mongo, vector: { ...vectorConfig, apiKeyFile: uriFile } }),
        environment,
      );
    try {
      expect(() => read({ uriFile })).toThrow(/uriFile = .* can't be read \(ENOENT\)/);
      writeFileSync(uriFile, "\n");
      expect(() => read({ uriFile })).toThrow("is empty");
      writeFileSync(uriFile, "mongodb://u:hunter2@a\n");
      expect(read({ uriFile })).toEqual({
        mongoUri: "mongodb://u:hunter2@a",
        vectorApiKey: "mongodb://u:hunter2@a",
      });
      expect(read({ uriFile }, { ENGINE_ROOM_MONGO_URI: "mongodb://b" }).mongoUri).toBe("mongodb://b");
      expect(() => read({})).toThrow("ENGINE_ROOM_MONGO_URI");
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("does not repeat an address that the driver can't read", async () => {
    const folder = mkdtempSync(join(tmpdir(), "gateway-secrets-"));
    const uriFile = join(folder, "uri");
    writeFileSync(uriFile, "no address with hunter2");
    const values = retrievalConfig({ url: "http://127.0.0.1:1" }, { mongo: 1, vector: 1 });
    try {
      const started = startGateway({ ...values, databases: { mongo: { uriFile }, vector: vectorConfig } });
      await expect(started).rejects.toThrow("no MongoDB connection string");
      await expect(started).rejects.not.toThrow("hunter2");
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
