import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import * as pulumi from "@pulumi/pulumi";
import { describe, expect, test } from "vitest";
import { projectRoot, readStackFile, stackReference } from "../../scripts/program/stack-file.ts";
import { type RenderedStack, renderJson, renderStack } from "../../scripts/render.ts";
import { program } from "../infra/platforms/program.ts";

class Thing extends pulumi.CustomResource {
  declare readonly token: pulumi.Output<string>;

  constructor(name: string, args: Record<string, unknown>, opts?: pulumi.CustomResourceOptions) {
    super("demo:index:Thing", name, { ...args, token: undefined }, opts);
  }
}

class Group extends pulumi.ComponentResource {
  constructor(name: string, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:demo:Group", name, {}, opts);
    this.registerOutputs({});
  }
}

const noConfig = { values: {}, secretKeys: [] };

test("a rendered graph has inputs, parents, dependencies and options, masked secrets and placeholders of unknown outputs", async () => {
  const rendered = await renderStack("demo", noConfig, async () => {
    const outer = new Group("outer");
    const inner = new Group("inner", { parent: outer });
    const first = new Thing(
      "first",
      { password: pulumi.secret("hush"), list: [1, { a: pulumi.secret("hush") }] },
      { protect: true },
    );
    const second = new Thing(
      "second",
      { from: first.token },
      { parent: inner, retainOnDelete: true, dependsOn: [outer] },
    );
    return { token: second.token, plain: 1 };
  });
  const byName = new Map(rendered.resources.map((resource) => [resource.name, resource]));
  expect(byName.get("first")).toMatchObject({
    inputs: { password: "[secret]", list: [1, { a: "[secret]" }] },
    options: { protect: true },
  });
  const first = byName.get("first")?.urn;
  expect(byName.get("second")).toMatchObject({
    urn: "urn:pulumi:demo::engine-room::engine-room:demo:Group$engine-room:demo:Group$demo:index:Thing::second",
    parent: byName.get("inner")?.urn,
    inputs: { from: "[unknown]" },
    propertyDependencies: { from: [first] },
    options: { retainOnDelete: true },
  });
  expect(rendered.outputs).toEqual({ token: "[unknown]", plain: 1 });
  expect(renderJson(rendered)).not.toContain("hush");
});

test("rendering fails if a resource is registered twice", async () => {
  const twice = async () => {
    const [one, other] = [new Group("one"), new Group("other")];
    new Thing("same", {}, { parent: one });
    new Thing("same", {});
    new Thing("same", {}, { parent: other });
    return {};
  };
  await expect(renderStack("demo", noConfig, twice)).rejects.toThrow(
    "registers urn:pulumi:demo::engine-room::engine-room:demo:Group$demo:index:Thing::same twice",
  );
});

test("rendering fails if the program calls a provider's function", async () => {
  const asking = async () => ({
    zones: pulumi.output(pulumi.runtime.invoke("aws:index/getAvailabilityZones", {})),
  });
  await expect(renderStack("demo", noConfig, asking)).rejects.toThrow(
    "provider function aws:index/getAvailabilityZones",
  );
});

/** Graph of the local stack by the command, in its own process. */
function renderedByCommand(root: string): string {
  return execFileSync(process.execPath, ["scripts/cli.mjs", "render"], { cwd: root, encoding: "utf8" });
}

describe("the local stack", async () => {
  const config = readStackFile(stackReference("local"));
  const text = renderJson(await renderStack("local", config, program(config)));

  test("the local stack renders to the same bytes by the command, in another folder", () => {
    const copy = mkdtempSync(join(tmpdir(), "engine-room-copy-"));
    try {
      const isCopied = (source: string) =>
        !/^\.[a-z]|^dist$|^test\/(?!bench)|(^|\/)(node_modules|__pycache__)$/.test(
          relative(projectRoot, source),
        );
      cpSync(projectRoot, copy, { recursive: true, filter: isCopied });
      symlinkSync(join(projectRoot, "node_modules"), join(copy, "node_modules"));
      expect(renderedByCommand(copy)).toBe(text);
    } finally {
      rmSync(copy, { recursive: true });
    }
  });

  test("the local stack has exactly these resources", () => {
    const { resources } = JSON.parse(text) as RenderedStack;
    const parentOf = (urn: string) => urn.split("::").at(-1);
    expect(
      resources.map(({ type, name, parent }) => `${type} ${name} in ${parentOf(parent)}`).sort(),
    ).toEqual([
      "engine-room:services:LocalDatabase mongo in engine-room-local",
      "engine-room:services:LocalDatabase vector in engine-room-local",
      "engine-room:services:LocalGateway gateway in engine-room-local",
      "engine-room:serving:CpuTriton encoders in engine-room-local",
      "engine-room:serving:CpuTriton smollm2 in engine-room-local",
      "local:index:ModelRepository encoders-repository in encoders",
      "local:index:ModelRepository smollm2-repository in smollm2",
      "local:index:Process encoders-server in encoders",
      "local:index:Process gateway-server in gateway",
      "local:index:Process mongo-server in mongo",
      "local:index:Process smollm2-server in smollm2",
      "local:index:Process vector-server in vector",
      "local:index:PythonEnvironment python in engine-room-local",
      "pulumi:pulumi:Stack engine-room-local in ",
    ]);
  });

  test("each local resource is deleted before its replacement, which has the same place, is created", async () => {
    const local = (await renderStack("local", config, program(config))).resources.filter(({ type }) =>
      type.startsWith("local:"),
    );
    expect(new Set(local.map(({ type }) => type)).size).toBe(3);
    expect(local.filter(({ options }) => options.deleteBeforeReplace !== true)).toEqual([]);
  });

  test("the local stack starts servers after their repositories, and the gateway after the servers", () => {
    const { resources } = JSON.parse(text) as RenderedStack;
    const dependencies = Object.fromEntries(
      resources.map(({ name, dependencies: urns }) => [
        name,
        urns.map((urn) => urn.split("::").at(-1)).sort(),
      ]),
    );
    expect(dependencies["encoders-repository"]).toEqual(["python"]);
    expect(dependencies["encoders-server"]).toEqual(["encoders-repository", "python"]);
    expect(dependencies["gateway-server"]).toEqual([
      "encoders-server",
      "mongo-server",
      "python",
      "smollm2-server",
      "vector-server",
    ]);
  });

  test("the local stack binds only loopback, and has no path of this machine", () => {
    expect(text).not.toContain(projectRoot.replace(/\/$/, ""));
    expect(text).not.toMatch(/0\.0\.0\.0|\[::\]/);
  });
});
