/** The package as `npm pack` makes it, in the program of examples/own-program: its types, and its graph. */
import { execFileSync } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { transform } from "esbuild";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { projectRoot } from "../../scripts/program/stack-file.ts";

const program = mkdtempSync(join(tmpdir(), "engine-room-own-program-"));
const modules = join(program, "node_modules");

const run = (file: string, args: readonly string[], cwd: string) =>
  execFileSync(file, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });

/** Registers with mocks, in a process of its own, and prints what was registered. */
const RENDER = `
const pulumi = require("@pulumi/pulumi");
const made = [];
pulumi.runtime.setMocks({
  newResource: ({ type, name, inputs, id }) => {
    made.push({ type, name, inputs });
    return { id: id || name + "-id", state: inputs };
  },
  call: ({ inputs }) => inputs,
}, "own-program", "dev", true);
pulumi.runtime.setConfig("own-program:kubeconfig", "the kubeconfig");
const settings = require("@pulumi/pulumi/runtime/settings.js");
let program;
pulumi.runtime.runInPulumiStack(async () => (program = require("./index.js"))).then(async () => {
  await settings.disconnect();
  const chatUrl = await new Promise((resolve) => program.chatUrl.apply(resolve));
  process.stdout.write(JSON.stringify({ made, chatUrl }));
});
`;

interface Made {
  readonly type: string;
  readonly name: string;
  readonly inputs: Readonly<Record<string, unknown>>;
}

describe("examples/own-program with the packed package", () => {
  let made: readonly Made[];
  let chatUrl: string;

  beforeAll(async () => {
    const pack = ["pack", "--silent", "--pack-destination", program];
    run("npm", pack, projectRoot);
    const tarball = readdirSync(program).find((file) => file.endsWith(".tgz")) ?? "";
    mkdirSync(modules);
    for (const name of readdirSync(join(projectRoot, "node_modules")).filter((one) => !one.startsWith(".")))
      if (name !== "@engine-room") symlinkSync(join(projectRoot, "node_modules", name), join(modules, name));
    run("tar", ["-xzf", join(program, tarball), "-C", modules], program);
    run("mv", [join(modules, "package"), join(modules, "engine-room")], program);
    cpSync(join(projectRoot, "examples/own-program"), program, { recursive: true });
    // As Pulumi's host loads a program in TypeScript: by require().
    const source = readFileSync(join(program, "index.ts"), "utf8");
    const { code } = await transform(source, { loader: "ts", format: "cjs" });
    writeFileSync(join(program, "index.js"), code);
    writeFileSync(join(program, "render.js"), RENDER);
    const text = run(process.execPath, ["render.js"], program);
    ({ made, chatUrl } = JSON.parse(text) as { made: readonly Made[]; chatUrl: string });
  }, 120_000);

  afterAll(() => rmSync(program, { recursive: true, force: true }));

  test("the program has the types of the stack file, and a mistake in a key is an error", () => {
    const compiler = join(projectRoot, "node_modules/typescript/bin/tsc");
    run(process.execPath, [compiler, "-p", "."], program);
    const wrong = readFileSync(join(program, "index.ts"), "utf8").replace(
      'whenFull: "stop',
      'whenFul: "stop',
    );
    writeFileSync(join(program, "wrong.ts"), wrong);
    writeFileSync(
      join(program, "wrong.json"),
      JSON.stringify({ extends: "./tsconfig.json", files: ["wrong.ts"] }),
    );
    expect(() => run(process.execPath, [compiler, "-p", "wrong.json"], program)).toThrow();
  });

  test("both services are registered, with names of their own", () => {
    const count = (type: string) => made.filter((one) => one.type === type).length;
    expect(count("aws:eks/cluster:Cluster")).toBe(1);
    expect(count("kubernetes:apps/v1:Deployment")).toBeGreaterThan(3);
    const names = made.flatMap(({ inputs }) =>
      JSON.stringify(inputs).includes('"app.kubernetes.io/instance"')
        ? [...JSON.stringify(inputs).matchAll(/"app.kubernetes.io\/instance":"([^"]+)"/g)].map(
            ([, one]) => one,
          )
        : [],
    );
    expect([...new Set(names)].toSorted()).toEqual(["dev-chat", "dev-text"]);
  });

  test("outputs of other resources stand where the ids of the network and the kubeconfig belong", () => {
    const cluster = made.find(({ type }) => type === "aws:eks/cluster:Cluster");
    expect(cluster?.inputs.vpcConfig).toMatchObject({ subnetIds: ["machines-a-id", "machines-b-id"] });
    expect(JSON.stringify(made)).not.toMatch(/"(vpc|subnet)-0{10}/);
    expect(made.filter(({ inputs }) => inputs.vpcId === "network-id").length).toBeGreaterThan(2);
    const providers = made.filter(({ type }) => type === "pulumi:providers:kubernetes");
    const secret = expect.objectContaining({ value: "the kubeconfig" });
    expect(providers.map(({ inputs }) => inputs.kubeconfig)).toContainEqual(secret);
  });

  test("the gateway's URL is an output", () => {
    expect(chatUrl).toBe("http://gateway.chat.svc:8080");
  });
});
