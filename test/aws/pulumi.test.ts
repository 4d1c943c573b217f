/**
 * Stacks on AWS by the Pulumi CLI, of one machine with a stand-in for AWS's provider that refuses calls in the wrong order:
 * the order in which resources are created, changed, replaced and deleted, and the content of the state. Clusters are in
 * test/cluster. Previews of the whole stacks run with AWS's own provider too, which checks every argument.
 */

import { readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { MOTO_ACCOUNT, motoEnvironment, resetMoto } from "../harness/aws/moto.ts";
import { changesOf, deletionsOf, refusedOf } from "../harness/aws/provider/account.ts";
import { StandInStack } from "../harness/aws/provider/stack.ts";
import { PUBLIC_GATEWAY } from "../harness/aws/stacks.ts";
import { motoUrl } from "../harness/aws/use-moto.ts";
import { missingPulumiPrograms } from "../harness/pulumi-programs.ts";
import { needs } from "../harness/requirements.ts";
import { TestStack } from "../harness/stack.ts";
import { projectStackValues } from "../harness/stack-files.ts";

const missing = missingPulumiPrograms("kubernetes");
const TOKEN = "hub-token-of-the-engine-test";
const values = { ...projectStackValues("examples/ec2.yaml"), hub: { token: TOKEN } };
const model = { name: "gpt2-medium", model: "gpt2-medium" };

/** A public gateway without its own certificate, and with a web ACL. */
function guarded(acl: string, hostname = PUBLIC_GATEWAY.hostname) {
  const { tls: _tls, ...gateway } = PUBLIC_GATEWAY;
  const wafAclArn = `arn:aws:wafv2:us-east-1:111122223333:regional/webacl/${acl}/12345678`;
  return {
    ...values,
    network: { cidr: "10.70.0.0/16" },
    gateway: { ...gateway, hostname, wafAclArn },
  };
}

describe("a machine on EC2", needs(missing), () => {
  let stack: StandInStack;
  beforeAll(() => {
    stack = new StandInStack("ec2", values);
  });
  afterAll(() => stack?.dispose());

  test("up creates the previewed resources, and a second up changes nothing", async () => {
    const { create } = await stack.previewed();
    expect(create).toBeGreaterThan(60);
    expect(stack.account.calls()).toEqual([]);
    expect(await stack.brought()).toEqual({ create });
    expect(refusedOf(stack.account.calls())).toEqual([]);
    const calls = await stack.callsOf(async () => {
      expect(await stack.brought()).toEqual({ unchanged: create });
    });
    expect(calls).toEqual([]);
  });

  test("the state has no secret", () => {
    const state = stack.stateFile();
    expect(state).toContain("aws:secretsmanager/secretVersion:SecretVersion");
    expect(state).not.toContain(TOKEN);
    expect(state).not.toContain(Buffer.from(TOKEN).toString("base64"));
  });

  test("a changed model is built and started on the same machine", async () => {
    stack.configure({ ...values, models: [{ ...model, limits: { maxOutputTokens: 128 } }] });
    const calls = await stack.callsOf(() => stack.brought());
    expect(refusedOf(calls)).toEqual([]);
    expect(new Set(calls.map(({ type }) => type))).toEqual(
      new Set(["aws:ssm/association:Association", "aws:ssm/document:Document"]),
    );
  });

  test("a command that fails is run again by the next up, before those that wait for it", async () => {
    const type = "aws:ssm/association:Association";
    stack.configure({ ...values, models: [{ ...model, limits: { maxOutputTokens: 64 } }] });
    stack.account.failNext(type, "unexpected state 'Failed', wanted target 'Success'");
    const made = async (work: () => Promise<unknown>) =>
      (await stack.callsOf(work)).flatMap((call) =>
        call.type === type && call.operation === "create" ? [call.name] : [],
      );
    const before = await made(async () => expect((await stack.run("up")).code).toBe(1));
    expect(before).toHaveLength(1);
    // `refresh` removes the errors of the state, and keeps the mark of the failed command.
    await stack.succeed("refresh");
    const after = await made(() => stack.brought());
    expect(after[0]).toBe(before[0]);
    expect(after.length).toBeGreaterThan(1);
    expect(await stack.callsOf(() => stack.brought())).toEqual([]);
  });

  test("plain `pulumi up` runs a failed command again, before those that wait for it", async () => {
    const type = "aws:ssm/association:Association";
    stack.configure({ ...values, models: [{ ...model, limits: { maxOutputTokens: 32 } }] });
    stack.account.failNext(type, "unexpected state 'Failed', wanted target 'Success'");
    const made = async (hasFailed: boolean) =>
      (
        await stack.callsOf(async () => {
          const { code, stdout, stderr } = await stack.plain("up", "--yes", "--skip-preview");
          expect(code !== 0, stdout + stderr).toBe(hasFailed);
        })
      ).flatMap((call) => (call.type === type && call.operation === "create" ? [call.name] : []));
    const before = await made(true);
    expect(before).toHaveLength(1);
    const after = await made(false);
    expect(after[0]).toBe(before[0]);
    expect(after.length).toBeGreaterThan(1);
    expect(await made(false)).toEqual([]);
  });

  test("another instance type stops and starts the machine", async () => {
    const [pool] = (values as unknown as { readonly pools: readonly object[] }).pools;
    stack.configure({
      ...values,
      models: [{ ...model, limits: { maxOutputTokens: 128 } }],
      pools: [{ ...pool, instanceType: "g5.2xlarge" }],
    });
    const planned = await stack.previewed();
    const calls = await stack.callsOf(async () => {
      expect(await stack.brought()).toEqual(planned);
    });
    expect(refusedOf(calls)).toEqual([]);
    const others = changesOf(calls).filter((one) => !/ ssm\//.test(one));
    expect(others).toEqual(["update ec2/instance:Instance"]);
  });

  test("another root disk comes with the next machine, which up creates after it terminated the old machine", async () => {
    const [pool] = (values as unknown as { readonly pools: readonly object[] }).pools;
    const larger = { pools: [{ ...pool, instanceType: "g5.2xlarge", diskGiB: 300 }] };
    stack.configure({ ...values, models: [{ ...model, limits: { maxOutputTokens: 128 } }], ...larger });
    const calls = await stack.callsOf(() => stack.brought());
    expect(changesOf(calls)).toEqual(["update ec2/launchTemplate:LaunchTemplate"]);
    const machine = stack.account.live().find(({ type }) => type === "aws:ec2/instance:Instance");
    if (machine === undefined) throw new Error("There is no machine.");
    stack.account.end(machine);
    const others = await stack.callsOf(() => stack.brought());
    expect(refusedOf(others)).toEqual([]);
    expect(changesOf(others)).toEqual(
      expect.arrayContaining([
        "create ec2/instance:Instance",
        "create ec2/volumeAttachment:VolumeAttachment",
      ]),
    );
    // Engines and documents stay.
    expect(others.filter(({ type }) => /efs\/|ebs\/volume:/.test(type))).toEqual([]);
    expect(await stack.previewed()).not.toHaveProperty("create");
  });

  test("another zone for the databases' disk is refused by plain `pulumi up` before anything changes", async () => {
    const [pool] = (values as unknown as { readonly pools: readonly object[] }).pools;
    stack.configure({ ...values, pools: [{ ...pool, zone: "b" }] });
    const calls = await stack.callsOf(async () => {
      for (const [command, ...options] of [["preview"], ["up", "--yes"]] as const) {
        const { code, stdout, stderr } = await stack.plain(command, ...options);
        expect(code).not.toBe(0);
        expect(stdout + stderr).toContain("availabilityZone us-east-1a");
      }
    });
    expect(calls).toEqual([]);
  });

  test("another network is created before the old network is deleted", async () => {
    stack.configure({ ...values, network: { cidr: "10.70.0.0/16" } });
    const planned = await stack.previewed();
    const calls = await stack.callsOf(async () => {
      expect(await stack.brought()).toEqual(planned);
    });
    expect(refusedOf(calls)).toEqual([]);
    const networks = calls.filter(({ type }) => type === "aws:ec2/vpc:Vpc").map(({ operation }) => operation);
    expect(networks).toEqual(["create", "delete"]);
    // Engines and documents stay on the new machine.
    expect(calls.filter(({ type }) => /efs\/fileSystem:|ebs\/volume:/.test(type))).toEqual([]);
    const machines = calls.filter(({ type }) => type === "aws:ec2/instance:Instance");
    expect(machines.map(({ operation }) => operation)).toEqual(["delete", "create"]);
  });

  test("a gateway that becomes public gets another load balancer, a name and a certificate", async () => {
    stack.configure(guarded("one"));
    const planned = await stack.previewed();
    const calls = await stack.callsOf(async () => {
      expect(await stack.brought()).toEqual(planned);
    });
    expect(refusedOf(calls)).toEqual([]);
    expect(changesOf(calls)).toEqual(
      expect.arrayContaining([
        "create acm/certificate:Certificate",
        "create acm/certificateValidation:CertificateValidation",
        "create route53/record:Record",
        "create wafv2/webAclAssociation:WebAclAssociation",
      ]),
    );
    expect(calls.filter(({ type }) => /ec2\/(vpc|subnet|instance):/.test(type))).toEqual([]);
  });

  test("another web ACL replaces the old web ACL, and another host name gets another certificate", async () => {
    const acl = await stack.callsOf(() => {
      stack.configure(guarded("two"));
      return stack.brought();
    });
    expect(refusedOf(acl)).toEqual([]);
    expect(acl.map(({ operation, type }) => `${operation} ${type}`)).toEqual([
      "delete aws:wafv2/webAclAssociation:WebAclAssociation",
      "create aws:wafv2/webAclAssociation:WebAclAssociation",
    ]);
    const named = await stack.callsOf(() => {
      stack.configure(guarded("two", "chat.example.org"));
      return stack.brought();
    });
    expect(refusedOf(named)).toEqual([]);
    expect(changesOf(named)).toEqual(
      expect.arrayContaining([
        "create acm/certificate:Certificate",
        "delete acm/certificate:Certificate",
        "update lb/listener:Listener",
      ]),
    );
    expect(named.filter(({ type }) => /loadBalancer:/.test(type))).toEqual([]);
  });

  test("down without the state deletes nothing and lists what the account has", async () => {
    const state = join(fileURLToPath(stack.stack.backend), ".pulumi");
    renameSync(state, `${state}-elsewhere`);
    try {
      const calls = await stack.callsOf(async () => {
        const { code, stderr } = await stack.run("down");
        expect(code).toBe(1);
        expect(stderr).toMatch(/has no stack \S+, and the account has \d+ of its resources: log in to/);
        for (const what of ["file system", "disk", "machine", "NAT gateway", "load balancer"])
          expect(stderr).toContain(`\n  ${what}`);
      });
      expect(calls).toEqual([]);
    } finally {
      rmSync(state, { recursive: true, force: true });
      renameSync(`${state}-elsewhere`, state);
    }
  });

  test("down deletes all resources in an order that AWS accepts", async () => {
    const calls = await stack.callsOf(async () => {
      const { stdout } = await stack.succeed("down");
      expect(stdout).toContain(
        `Nothing with the tag engine-room:stack=${stack.stack.name} still costs money.`,
      );
    });
    expect(refusedOf(calls)).toEqual([]);
    expect(stack.account.live()).toEqual([]);
    // Commands on the machine are deleted first, then the machine, and only then its route to the internet.
    const [machine = -1] = deletionsOf(calls, "aws:ec2/instance:Instance");
    expect(Math.max(...deletionsOf(calls, "aws:ssm/association:Association"))).toBeLessThan(machine);
    expect(machine).toBeLessThan(Math.min(...deletionsOf(calls, "aws:ec2/natGateway:NatGateway")));
  });
});

describe("a machine that is retained", needs(missing), () => {
  let stack: StandInStack;
  const setRetained = (isRetained: boolean) =>
    stack.configure({ ...values, retain: isRetained ? [stack.stack.name] : [] });
  beforeAll(() => {
    stack = new StandInStack("retained", values);
    setRetained(true);
  });
  afterAll(() => stack?.dispose());

  test("down of a retained stack stops before it deletes anything", async () => {
    await stack.brought();
    const calls = await stack.callsOf(async () => {
      const { code, stdout, stderr } = await stack.run("down");
      expect(code).not.toBe(0);
      expect(stdout + stderr).toMatch(/are protected \(.*engine-store-files.*\), so nothing is deleted/);
    });
    expect(calls).toEqual([]);
  });

  test("plain `pulumi destroy` of a retained stack deletes nothing", async () => {
    const calls = await stack.callsOf(async () => {
      const { code, stdout, stderr } = await stack.plain("destroy", "--yes", "--skip-preview");
      expect(code).not.toBe(0);
      expect(stdout + stderr).toMatch(/Protection::protection" cannot be deleted\s+because it is protected/);
    });
    expect(calls).toEqual([]);
  });

  test("down deletes the stack once its name is taken out of retain", async () => {
    setRetained(false);
    const calls = await stack.callsOf(() => stack.brought());
    // Only protections and daily copies change: nothing is created or replaced.
    expect(changesOf(calls).filter((change) => !change.startsWith("update "))).toEqual([
      "delete backup/plan:Plan",
      "delete backup/selection:Selection",
      "delete iam/role:Role",
      "delete iam/rolePolicyAttachment:RolePolicyAttachment",
    ]);
    const deletions = await stack.callsOf(() => stack.succeed("down"));
    expect(refusedOf(deletions)).toEqual([]);
    // Its copies expire by themselves.
    expect(stack.account.live().map(({ type }) => type)).toEqual(["aws:backup/vault:Vault"]);
  });
});

describe("a cluster that does not exist yet", needs(missing), () => {
  test.each(["dev", "prod"] as const)(
    "a preview of %s shows every resource before the cluster exists",
    async (name) => {
      const stack = new StandInStack(name, projectStackValues(`Pulumi.${name}.yaml`));
      // Resources that are retained, and copied daily, have the stack's name.
      if (name === "prod")
        stack.configure({ ...projectStackValues("Pulumi.prod.yaml"), retain: [stack.stack.name] });
      try {
        expect(await stack.previewed()).toEqual({ create: countOf(name) });
        expect(stack.account.calls()).toEqual([]);
      } finally {
        await stack.dispose();
      }
    },
  );
});

const missingForAws = missingPulumiPrograms("aws") ?? missing;

describe("AWS's own provider", needs(missingForAws), () => {
  test.each(["dev", "prod"] as const)("AWS's own provider previews every resource of %s", async (name) => {
    const stack = new TestStack(name, {
      ...projectStackValues(`Pulumi.${name}.yaml`),
      account: MOTO_ACCOUNT,
    });
    await resetMoto(motoUrl());
    const environment = { ...motoEnvironment(motoUrl(), "us-east-1"), ENGINE_ROOM_RUNNER: "", CI: "true" };
    try {
      const { stdout } = await stack.succeedWith(environment, "preview");
      expect(stdout).toMatch(new RegExp(`^${countOf(name)} to create$`, "m"));
    } finally {
      await stack.dispose(environment);
    }
  });
});

/** Resources of docs/platforms/aws-resources.md, which another test holds to the graphs. */
function countOf(stack: "dev" | "prod"): number {
  const docs = readFileSync(join(projectRoot, "docs/platforms/aws-resources.md"), "utf8");
  const [, dev, prod] = /^\| all, components too \| (\d+) \| (\d+) \|/m.exec(docs) as RegExpExecArray;
  return Number(stack === "dev" ? dev : prod);
}
