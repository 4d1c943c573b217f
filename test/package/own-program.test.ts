/** The package of `npm pack` in the program of examples/own-program: its types, and its graph. */
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

/**
 * Registers with mocks, in its own process, and prints the registered resources: of a first preview, where ids are unknown,
 * or of a later preview, where each resource has an id.
 */
const RENDER = `
const pulumi = require("@pulumi/pulumi");
const [file, isFirst] = [process.argv[2], process.argv[3] === "first"];
const made = [];
pulumi.runtime.setMocks({
  newResource: ({ type, name, inputs, id }) => {
    made.push({ type, name, inputs, id });
    return isFirst ? { id: undefined, state: inputs } : { id: id || name + "-id", state: { ...inputs, ...ANSWERS[type] } };
  },
  call: ({ inputs }) => inputs,
  // A preview in both cases, where images need not be pushed.
}, "own-program", "dev", true);
// Outputs that AWS adds.
const ANSWERS = {
  "aws:eks/cluster:Cluster": {
    name: "platform", version: "1.35", endpoint: "https://cluster.example.org", arn: "arn:aws:eks",
    certificateAuthority: { data: "Y2E=" }, vpcConfig: { clusterSecurityGroupId: "sg-cluster" },
  },
  "aws:eks/nodeGroup:NodeGroup": { arn: "arn:group", resources: [{ autoscalingGroups: [{ name: "group" }] }] },
};
pulumi.runtime.setConfig("own-program:kubeconfig", "the kubeconfig");
const settings = require("@pulumi/pulumi/runtime/settings.js");
let program;
pulumi.runtime.runInPulumiStack(async () => (program = require(file))).then(async () => {
  await settings.disconnect();
  const chatUrl = program.chatUrl && await new Promise((resolve) => program.chatUrl.apply(resolve));
  process.stdout.write(JSON.stringify({ made, chatUrl }));
});
`;

/** Three services of one program, in its own VPC and cluster, with a token that is an output. */
const SERVICES = `
import * as aws from "@pulumi/aws";
import * as pulumi from "@pulumi/pulumi";
import { InferenceStack } from "engine-room";

const vpc = new aws.ec2.Vpc("network", { cidrBlock: "10.20.0.0/16" });
const privateSubnets = (["a", "b"] as const).map((zone) => ({
  zone,
  id: new aws.ec2.Subnet(\`machines-\${zone}\`, { vpcId: vpc.id, cidrBlock: "10.20.0.0/20" }).id,
}));
const cluster = new aws.eks.Cluster("platform", {
  roleArn: "arn:aws:iam::111122223333:role/cluster",
  vpcConfig: { subnetIds: privateSubnets.map(({ id }) => id) },
});
const token = pulumi.output("token-in-an-output");
const place = {
  platform: "aws",
  account: "111122223333",
  region: "us-east-1",
  network: { existing: { vpcId: vpc.id, cidr: "10.20.0.0/16", privateSubnets } },
} as const;
const models = [{ name: "gpt2-medium", model: "gpt2-medium" }] as const;

for (const name of ["one", "two"])
  new InferenceStack(name, {
    ...place,
    compute: "eks",
    namespace: name,
    cluster: {
      existing: { name: cluster.name, addOns: name === "one" ? ["aws-efs-csi-driver"] : [] },
      charts: name === "one" ? { "cluster-autoscaler": "install" } : {},
    },
    pools: [
      { name: "gpu", instanceType: "g5.xlarge", nodes: { min: 0, max: 1 } },
      { name: "cpu", instanceType: "m7i.xlarge" },
    ],
    engines: { whenFull: "stopServer" },
    hub: { token },
    models,
  });
new InferenceStack("machine", {
  ...place,
  compute: "ec2",
  pools: [{ name: "gpu", instanceType: "g5.xlarge" }],
  hub: { token },
  models,
});
`;

interface Made {
  readonly type: string;
  readonly name: string;
  readonly inputs: Readonly<Record<string, unknown>>;
  readonly id?: string;
}

async function rendered(file: string, mode: "first" | "later") {
  // As Pulumi's host loads a program in TypeScript: by require().
  const { code } = await transform(readFileSync(join(program, file), "utf8"), {
    loader: "ts",
    format: "cjs",
  });
  const compiled = file.replace(/ts$/, "js");
  writeFileSync(join(program, compiled), code);
  const text = run(process.execPath, ["render.js", `./${compiled}`, mode], program);
  return JSON.parse(text) as { readonly made: readonly Made[]; readonly chatUrl: string };
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
    writeFileSync(join(program, "services.ts"), SERVICES);
    writeFileSync(join(program, "render.js"), RENDER);
    ({ made, chatUrl } = await rendered("index.ts", "later"));
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

  test("both services are registered, with different names", () => {
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

  test("the ids of the network and the kubeconfig are outputs of other resources", () => {
    const cluster = made.find(({ type }) => type === "aws:eks/cluster:Cluster");
    expect(cluster?.inputs.vpcConfig).toMatchObject({ subnetIds: ["machines-a-id", "machines-b-id"] });
    expect(JSON.stringify(made)).not.toMatch(/"(vpc|subnet)-0{10}/);
    expect(made.filter(({ inputs }) => inputs.vpcId === "network-id").length).toBeGreaterThan(2);
    const providers = made.filter(({ type }) => type === "pulumi:providers:kubernetes");
    const secret = expect.objectContaining({ value: "the kubeconfig" });
    expect(providers.map(({ inputs }) => inputs.kubeconfig)).toContainEqual(secret);
  });

  describe("two services in a cluster of the program, and one on a machine", () => {
    let services: readonly Made[];
    beforeAll(async () => {
      services = (await rendered("services.ts", "later")).made;
    });
    const ofType = (type: string) => services.filter((one) => one.type === type);
    const names = (all: readonly Made[]) => all.map(({ type, name }) => `${type} ${name}`).toSorted();

    test("a first preview, where ids and names are unknown, has the same resources", async () => {
      expect(names((await rendered("services.ts", "first")).made)).toEqual(names(services));
      expect(ofType("aws:eks/nodeGroup:NodeGroup").length).toBe(4);
      expect(ofType("aws:ec2/instance:Instance").length).toBe(1);
    });

    test("the cluster's name and the network's ids are outputs wherever the stack needs them", () => {
      const clusters = ofType("aws:eks/cluster:Cluster").map(({ name, id }) => [name, id]);
      expect(clusters).toEqual([
        ["platform", ""],
        ["cluster-cluster", "platform"],
        ["cluster-cluster", "platform"],
      ]);
      expect(JSON.stringify(services)).not.toMatch(/(vpc|subnet|cluster)-0{10}/);
      for (const { inputs } of ofType("aws:eks/nodeGroup:NodeGroup"))
        expect(inputs).toMatchObject({ clusterName: "platform", version: "1.35" });
      const [release] = ofType("kubernetes:helm.sh/v3:Release");
      expect(release?.inputs.values).toMatchObject({
        autoDiscovery: { clusterName: "platform" },
        image: { tag: "v1.35.0" },
      });
      const policies = JSON.stringify(
        ofType("aws:iam/rolePolicy:RolePolicy").map(({ inputs }) => inputs.policy),
      );
      expect(policies).toContain("aws:ResourceTag/k8s.io/cluster-autoscaler/platform");
    });

    test("resources without a namespace have a different name in each service", () => {
      const wide = services.filter(({ type }) =>
        /^kubernetes:.*:(StorageClass|PersistentVolume|PriorityClass|Namespace)$/.test(type),
      );
      const used = wide.map(({ type, inputs }) => `${type} ${(inputs.metadata as { name: string }).name}`);
      expect(used.length).toBe(12);
      expect(new Set(used).size).toBe(used.length);
    });

    test("a token that is an output is a secret in every resource that has it", () => {
      const text = JSON.stringify(services);
      expect(text.split("token-in-an-output").length - 1).toBeGreaterThan(2);
      const secret =
        /\{"4dabf18193072939515e22adb298388d":"1b47061264138c4ac30d75fd1eb44270","value":("(?:[^"\\]|\\.)*"|\{[^{}]*\})\}/g;
      expect(text.replaceAll(secret, "")).not.toContain("token-in-an-output");
    });

    test("the types take outputs for the name, and no other value of the cluster", () => {
      const compiler = join(projectRoot, "node_modules/typescript/bin/tsc");
      const check = (file: string, source: string) => {
        writeFileSync(join(program, `${file}.ts`), source);
        const settings = { extends: "./tsconfig.json", files: [`${file}.ts`] };
        writeFileSync(join(program, `${file}.json`), JSON.stringify(settings));
        return () => run(process.execPath, [compiler, "-p", `${file}.json`], program);
      };
      check("right-services", SERVICES)();
      const wrong = SERVICES.replace('"install" } : {}', "cluster.name } : {}");
      expect(check("wrong-services", wrong)).toThrow();
    });
  });

  test("the gateway's URL is an output", () => {
    expect(chatUrl).toBe("http://gateway.chat.svc:8080");
  });
});
