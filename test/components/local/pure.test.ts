import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fillPlaceholders } from "../../../components/local/provider/placeholders.ts";
import { packageSchema } from "../../../components/local/provider/schema.ts";
import { renderProgram } from "../../../components/local/provider/supervisor-conf.ts";
import { hasUnknown, propertyPath } from "../../../components/local/provider/validation.ts";
import { unwrap, wrap } from "../../../components/local/provider/wire.ts";
import { repositoryDigest } from "../../../components/local/repository-digest.ts";
import { RESOURCE_TYPES } from "../../../components/local/types.ts";
import { canonicalJson } from "../../../infra/plan/canonical-json.ts";

const SECRET = { "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270" };
const OUTPUT = { "4dabf18193072939515e22adb298388d": "d0e6a833031e9bbcd3f4e8bde6ca49a4" };

describe("canonicalJson", () => {
  it("does not depend on the order of keys, and tells any two values apart", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (a, b) => {
        const reversed = JSON.parse(JSON.stringify(a), (_key, value) =>
          typeof value === "object" && value !== null && !Array.isArray(value)
            ? Object.fromEntries(Object.entries(value).toReversed())
            : value,
        );
        expect(canonicalJson(reversed)).toBe(canonicalJson(a));
        expect(JSON.parse(canonicalJson(a))).toEqual(JSON.parse(JSON.stringify(a)));
        if (canonicalJson(a) === canonicalJson(b))
          expect(JSON.parse(JSON.stringify(a))).toEqual(JSON.parse(JSON.stringify(b)));
      }),
    );
  });

  it("gives repositories of the same content one digest", () => {
    const files = { b: { text: "1" }, a: { text: "2" } };
    const reversed = { a: { text: "2" }, b: { text: "1" } };
    expect(repositoryDigest({ files, artifacts: {} })).toBe(
      repositoryDigest({ artifacts: {}, files: reversed }),
    );
    expect(repositoryDigest({ files, artifacts: {} })).not.toBe(
      repositoryDigest({ files: {}, artifacts: {} }),
    );
  });
});

describe("the wire", () => {
  it("unwraps secrets and outputs, and wraps secrets at the same places", () => {
    const properties = {
      plain: [1, null, "x"],
      password: { ...SECRET, value: "p" },
      environment: { KEY: { ...OUTPUT, value: "k", secret: true }, OTHER: { ...OUTPUT, value: "o" } },
      unknown: { ...OUTPUT },
    };
    const { properties: plain, secretPaths } = unwrap(properties);
    expect(plain).toMatchObject({
      plain: [1, null, "x"],
      password: "p",
      environment: { KEY: "k", OTHER: "o" },
    });
    expect(hasUnknown(plain.unknown)).toBe(true);
    const outs = { password: "p", environment: { KEY: "k", OTHER: "o" }, ports: { http: 1 } };
    expect(wrap(outs, secretPaths)).toEqual({
      password: { ...SECRET, value: "p" },
      environment: { KEY: { ...SECRET, value: "k" }, OTHER: "o" },
      ports: { http: 1 },
    });
    expect(wrap({ ports: {} }, secretPaths)).toEqual({ ports: {} });
  });
});

describe("small parts", () => {
  it("fills known placeholders and leaves other braces", () => {
    const values = { ports: { http: 8000 }, root: "/project" };
    expect(fillPlaceholders("{port.http}{port.x} {root}/{a} {{root}}", values)).toBe(
      "8000{port.x} /project/{a} {/project}",
    );
  });

  it("writes property paths as Pulumi does", () => {
    expect(propertyPath(["files", "a b", "source"])).toBe('files["a b"].source');
    expect(propertyPath(["command", 3])).toBe("command[3]");
  });

  it("renders a program's section of names and numbers alone", () => {
    const section = renderProgram({
      ...{ stackDirectory: ".stacks/s", name: "gateway", python: ".stacks/s/python/bin/python" },
      ...{ priority: 7, stopTimeoutSeconds: 11, maxLogMiB: 13, logBackups: 2 },
    });
    expect(section.split("\n")).toEqual(
      expect.arrayContaining([
        "[program:gateway]",
        "command=.stacks/s/python/bin/python -I .stacks/s/supervisor/launch.py .stacks/s/supervisor/programs/gateway.json",
        "priority=7",
        "stopwaitsecs=11",
        "stopasgroup=true",
        "killasgroup=true",
        "stdout_logfile=.stacks/s/logs/gateway.log",
        "stdout_logfile_maxbytes=13MB",
        "stdout_logfile_backups=2",
      ]),
    );
  });

  it("describes every resource in the schema, its outputs beside its inputs", () => {
    const schema = JSON.parse(packageSchema("1.2.3"));
    expect(Object.keys(schema.resources)).toEqual([...RESOURCE_TYPES]);
    expect(Object.keys(schema.resources["local:index:Process"].properties)).toContain("ports");
    expect(Object.keys(schema.resources["local:index:Process"].inputProperties)).not.toContain("ports");
  });
});
