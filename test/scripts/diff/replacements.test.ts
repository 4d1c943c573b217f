import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { handlers } from "../../../components/local/provider/handlers.ts";
import { renderTree } from "../../../scripts/diff/render-tree.ts";
import { localRows } from "../../../scripts/diff/replacements/local.ts";
import { propertyEffect, replacementRow } from "../../../scripts/diff/replacements/property-effects.ts";
import { projectRoot, stackNames } from "../../../scripts/program/stack-file.ts";

const files = [
  ...stackNames().map((name) => ({ stack: name, configFile: join(projectRoot, `Pulumi.${name}.yaml`) })),
  ...readdirSync(join(projectRoot, "examples")).map((file) => ({
    stack: "example",
    configFile: join(projectRoot, "examples", file),
  })),
];

test("every type that a stack file of the project renders has a row", async () => {
  const types = new Set<string>();
  for (const file of files) {
    const { resources, failure, problems } = await renderTree({
      project: projectRoot,
      secretKey: "",
      ...file,
    });
    // A stack that this version can't deploy has no graph.
    expect([file.configFile, failure ?? "", problems]).toEqual([
      file.configFile,
      resources === null ? expect.stringContaining("aws") : "",
      [],
    ]);
    for (const { custom, type } of resources ?? []) if (custom) types.add(type);
  }
  expect(types.size).toBeGreaterThan(15);
  expect([...types].filter((type) => replacementRow(type) === undefined)).toEqual([]);
});

test.each(Object.entries(localRows))("%s has what its handler's diff has", async (type, row) => {
  const handler = handlers[type as keyof typeof handlers];
  const properties = [...row.replaces, ...row.updates, ...(row.ignores ?? [])];
  const diffs = await Promise.all(
    properties.map(async (property) => [
      property,
      await handler.diff("id", { [property]: 1 }, { [property]: 2 }),
    ]),
  ).then((entries) => Object.fromEntries(entries));
  for (const property of properties) {
    const { changes, replaces, deleteBeforeReplace } = diffs[property];
    expect([property, changes, replaces]).toEqual([
      property,
      !(row.ignores ?? []).includes(property),
      row.replaces.includes(property) ? [property] : [],
    ]);
    expect(row.deletesFirst({ before: {}, after: {} })).toBe(deleteBeforeReplace);
  }
});

describe("what a property does", () => {
  const effect = (
    type: string,
    path: string,
    { value = 1, after = {}, provider = {} }: { value?: unknown; after?: object; provider?: object } = {},
  ) =>
    propertyEffect(replacementRow(type), path.split("."), value, {
      before: {},
      after: after as Record<string, unknown>,
      provider: provider as Record<string, unknown>,
    });

  test.each([
    ["kubernetes:apps/v1:Deployment", "spec.selector.matchLabels.app", "replace"],
    ["kubernetes:apps/v1:Deployment", "spec.template.spec.containers", "update"],
    ["kubernetes:apps/v1:Deployment", "spec.somethingNew", "may-replace"],
    ["kubernetes:apps/v1:StatefulSet", "spec.volumeClaimTemplates.spec", "replace"],
    ["kubernetes:core/v1:PersistentVolumeClaim", "spec.resources.requests.storage", "update"],
    ["kubernetes:core/v1:PersistentVolumeClaim", "spec.volumeMode", "may-replace"],
    ["kubernetes:batch/v1:Job", "spec.template.spec", "replace"],
    ["kubernetes:core/v1:Service", "spec.clusterIP", "replace"],
    ["docker:index/container:Container", "image", "replace"],
    ["docker:index/container:Container", "restart", "update"],
    ["docker:index/container:Container", "mounts.source", "may-replace"],
    ["docker:index/image:Image", "imageName", "may-replace"],
    ["local:index:ModelRepository", "python", null],
  ])("%s %s: %s", (type, path, expected) => {
    expect(effect(type, path)).toBe(expected);
  });

  test("content of a ConfigMap replaces it unless its provider may change it", () => {
    const data = (rest: { after?: object; provider?: object }) =>
      effect("kubernetes:core/v1:ConfigMap", "data.text", rest);
    expect(data({})).toBe("replace");
    expect(data({ provider: { enableConfigMapMutable: "true" } })).toBe("update");
    expect(data({ provider: { enableConfigMapMutable: true }, after: { immutable: true } })).toBe("replace");
  });

  test("a part that comes as a whole does what the worst of it does", () => {
    const type = "kubernetes:core/v1:Service";
    expect(effect(type, "spec", { value: { ports: [{ port: 1 }], selector: { app: "a" } } })).toBe("update");
    expect(effect(type, "spec", { value: { ports: [], clusterIP: "None" } })).toBe("replace");
    expect(effect(type, "spec", { value: { ports: [], loadBalancerClass: "a" } })).toBe("may-replace");
  });
});
