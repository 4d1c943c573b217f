import { expect, test } from "vitest";
import type { z } from "zod";
import { secret } from "../../../infra/config/common.ts";
import { stackKinds } from "../../../infra/config/config.ts";
import { formatPath, SECRET_PATHS, shownValue } from "../../../infra/problems.ts";

type Path = readonly (string | number)[];

interface Key {
  readonly path: Path;
  readonly schema: z.core.$ZodType;
}

/** Every key of a schema; the first entry of a list stands for all. */
function keysOf(schema: z.core.$ZodType, path: Path = []): readonly Key[] {
  if (schema === secret) return [];
  const { def } = (schema as z.core.$ZodTypes)._zod;
  switch (def.type) {
    case "optional":
    case "nullable":
    case "default":
    case "prefault":
      return keysOf(def.innerType, path);
    case "array":
      return keysOf(def.element, [...path, 0]);
    case "record":
      return keysOf(def.valueType, [...path, "own"]);
    case "union":
      return def.options.flatMap((option) => keysOf(option, path));
    case "object":
      return Object.entries(def.shape).flatMap(([key, inner]) => [
        { path: [...path, key], schema: inner },
        ...keysOf(inner, [...path, key]),
      ]);
    default:
      return [];
  }
}

const keys = stackKinds.flatMap(({ schema }) => keysOf(schema));

/** `{ models: [{ name: value }] }` */
function valuesWith(path: Path, value: unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return value;
  const inner = valuesWith(rest, value);
  return typeof key === "number" ? [inner] : { [key]: inner };
}

test("every key of the schemas is shown, except credentials and a plain value in place of a mapping that has credentials", () => {
  expect(keys.length).toBeGreaterThan(300);
  const isHidden = (path: string, value: unknown) =>
    SECRET_PATHS.some((one) => one === path || one.startsWith(`${path}.`)) ||
    // A number is not a path, and may be the credential that belongs in the file.
    (/^(hub|externalDatabases)\..*File$/.test(path) && value === 0);
  for (const { path } of keys)
    for (const value of [0, "/shown"])
      expect([path, shownValue(path, valuesWith(path, value))]).toEqual([
        path,
        isHidden(formatPath(path), value) ? "[secret]" : JSON.stringify(value),
      ]);
});

test("a mapping is shown without its credentials", () => {
  const hub = { token: "plain", tokenFile: "/etc/token" };
  expect(shownValue(["hub"], { hub })).toBe('{"token":"[secret]","tokenFile":"/etc/token"}');
});

test.each([
  [["hub", "tokn"], "plain"],
  [["hubToken"], "plain"],
  [["models", 0, "apiKey"], "plain"],
  [["foo", "passphrase"], "plain"],
  [["aws", "accessKey"], "plain"],
  [["slack", "webhook"], "plain"],
  [["gateway", "tls", "privateKey"], "plain"],
  [["kubeconfig"], "plain"],
  [["colour"], "hf_ATokenAtTheWrongPlace"],
])("at the unknown key %j the value %s is hidden", (path, value) => {
  expect(shownValue(path, valuesWith(path, value), false)).not.toContain(value);
});

test("a password in an address is hidden with a scheme or without, and a digest after a tag is shown", () => {
  for (const address of ["u:hidden@registry.example.org/room", "https://u:hidden@registry.example.org"])
    expect(shownValue(["images", "registry"], { images: { registry: address } })).toMatch(
      /^"(https:\/\/)?\[secret\]@registry\.example\.org/,
    );
  const base = "node:24-slim@sha256:0123";
  expect(shownValue(["images", "registry"], { images: { registry: base } })).toBe(JSON.stringify(base));
});

test("an element of a list is shown without its credentials", () => {
  const models = [{ name: "gpt", HF_TOKEN: "plain" }];
  expect(shownValue(["models"], { models }, false)).toBe('[{"name":"gpt","HF_TOKEN":"[secret]"}]');
});

test("a number at an unknown key is shown, whatever the key's name", () => {
  expect(shownValue(["contextToken"], { contextToken: 2048 }, false)).toBe("2048");
  expect(shownValue(["contextTokens"], { contextTokens: "2048" }, false)).toBe('"2048"');
});
