/**
 * Stacks on EKS by the Pulumi CLI. AWS's provider is a stand-in that refuses calls in the wrong order; its cluster is a
 * real API server, which a stack reaches as it would reach EKS. Charts are already installed.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { changesOf, deletionsOf, refusedOf } from "../harness/aws/provider/account.ts";
import { PUBLIC_GATEWAY } from "../harness/aws/stacks.ts";
import { describeWithCluster } from "../harness/kubernetes/describe.ts";
import { missingPulumiPrograms } from "../harness/pulumi-programs.ts";
import { projectStackValues } from "../harness/stack-files.ts";
import { apiGate, EksTestStack } from "./eks-stack.ts";

const TOKEN = "hub-token-of-the-eks-test";
const NODE_GROUP = "aws:eks/nodeGroup:NodeGroup";
const TARGET_GROUP = "aws:lb/targetGroup:TargetGroup";

const dev = { ...projectStackValues("Pulumi.dev.yaml"), namespace: "pulumi-eks-dev", hub: { token: TOKEN } };
const model = { name: "gpt2-medium", model: "gpt2-medium" };

/** Pools of dev, with another pool for GPUs. */
function poolsWith(change: object) {
  const { pools } = dev as unknown as { readonly pools: readonly { readonly name: string }[] };
  return pools.map((pool) => (pool.name === "gpu" ? { ...pool, ...change } : pool));
}

describeWithCluster(
  "dev on EKS, by the Pulumi CLI",
  (cluster) => {
    let stack: EksTestStack;
    const larger = { ...dev, pools: poolsWith({ instanceType: "g5.2xlarge", nodes: { min: 1, max: 3 } }) };
    const lasting = { ...larger, guard: { ttlHours: 8 } };
    let gate: Awaited<ReturnType<typeof apiGate>>;
    /** This machine's address, as the cluster's API sees it. */
    let address = "203.0.113.7";
    beforeAll(async () => {
      gate = await apiGate(cluster.connection, () => stack.openNetworks().includes(`${address}/32`));
      const connection = { ...cluster.connection, server: gate.server };
      stack = new EksTestStack({ ...cluster, connection }, dev);
      await stack.prepare();
    });
    afterAll(async () => {
      await stack?.dispose();
      gate?.close();
    });

    test("plain `pulumi up` of dev creates the resources of the preview, and neither a second run nor `up` changes anything", async () => {
      await stack.plain("stack", "init");
      const create = Number(/\+ (\d+) to create/.exec((await stack.plain("preview")).stdout)?.[1]);
      expect(create).toBeGreaterThan(150);
      expect(stack.account.calls()).toEqual([]);
      expect((await stack.plain("up", "--yes")).stdout).toMatch(new RegExp(`\\+ ${create} created`));
      expect(refusedOf(stack.account.calls())).toEqual([]);
      expect(await stack.deploymentUids()).toHaveLength(3);
      const calls = await stack.callsOf(async () => {
        expect((await stack.plain("up", "--yes")).stdout).toMatch(new RegExp(`${create} unchanged`));
        expect(await stack.brought()).toEqual({ unchanged: create });
      });
      expect(calls).toEqual([]);
    });

    test("the state of dev contains neither the token of the hub nor that of the cluster", () => {
      const state = stack.stateFile();
      for (const secret of [TOKEN, cluster.connection.token])
        for (const form of [secret, Buffer.from(secret).toString("base64")])
          expect(state).not.toContain(form);
    });

    test("a changed model changes nothing in the AWS account", async () => {
      const before = await stack.deploymentUids();
      stack.configure({ ...dev, models: [{ ...model, limits: { maxOutputTokens: 128 } }] });
      expect(await stack.callsOf(() => stack.brought())).toEqual([]);
      expect(await stack.deploymentUids()).toEqual(before);
    });

    test("a pool with a higher maximum keeps its running machines", async () => {
      stack.scaleGroup("gpu", 1);
      stack.configure({ ...dev, pools: poolsWith({ nodes: { min: 0, max: 2 } }) });
      const planned = await stack.previewed();
      const calls = await stack.callsOf(async () => {
        expect(await stack.brought()).toEqual(planned);
      });
      // Amazon's provider would send the number of machines that the state has.
      expect(changesOf(calls)).toEqual([]);
      expect(stack.group("gpu").outputs.scalingConfig).toEqual({ minSize: 0, maxSize: 2, desiredSize: 1 });
    });

    test("another instance type with another size creates a new node group of that size before the old group is deleted", async () => {
      stack.configure(larger);
      // Servers with other requests roll over to a second machine.
      await stack.addMachines();
      const planned = await stack.previewed();
      const calls = await stack.callsOf(async () => {
        expect(await stack.brought()).toEqual(planned);
      });
      expect(refusedOf(calls)).toEqual([]);
      expect(new Set(calls.map(({ name }) => /^[a-z]+-machines/.exec(name)?.[0]))).toEqual(
        new Set(["gpu-machines"]),
      );
      const ofGroup = calls.filter(({ type }) => type === NODE_GROUP).map(({ operation }) => operation);
      expect(ofGroup).toEqual(["create", "delete"]);
      expect(stack.group("gpu").outputs.scalingConfig).toMatchObject({ minSize: 1, maxSize: 3 });
    });

    test("a changed ttl replaces no machine", async () => {
      const { launchTemplate } = stack.group("gpu").inputs;
      stack.configure(lasting);
      const calls = await stack.callsOf(() => stack.brought());
      expect(changesOf(calls)).toContain("update eks/nodeGroup:NodeGroup");
      expect(new Set(calls.map(({ operation }) => operation))).toEqual(new Set(["update"]));
      expect(stack.group("gpu").inputs.launchTemplate).toEqual(launchTemplate);
    });

    test("plain `pulumi up` refuses a node group that EKS could not create, and creates another by --replace", async () => {
      const spare = { name: "spare", instanceType: "m7i.xlarge", zones: ["a"] };
      stack.configure({ ...lasting, pools: [...lasting.pools, spare] });
      stack.account.failNext(NODE_GROUP, "unexpected state 'CREATE_FAILED', wanted target 'ACTIVE'");
      expect((await stack.plain("up", "--yes")).code).not.toBe(0);
      const lost = stack.group("spare");
      stack.account.change({ ...lost, outputs: { ...lost.outputs, status: "CREATE_FAILED" } });
      const again = await stack.plain("up", "--yes");
      expect(again.code).not.toBe(0);
      expect(again.stdout + again.stderr).toMatch(
        /The node group spare\S* is CREATE_FAILED, and can't be resized/,
      );
      const replaced = await stack.plain("up", "--yes", "--replace", "**::spare-machines-group");
      expect(replaced.stdout + replaced.stderr).not.toContain("error:");
      expect(replaced.code).toBe(0);
      expect(stack.group("spare").id).not.toBe(lost.id);
    });

    test("a gateway that becomes public gets another load balancer with a target group of its own", async () => {
      const before = await stack.deploymentUids();
      stack.configure({ ...lasting, gateway: PUBLIC_GATEWAY });
      const planned = await stack.previewed();
      const calls = await stack.callsOf(async () => {
        expect(await stack.brought()).toEqual(planned);
      });
      expect(refusedOf(calls)).toEqual([]);
      const [groups, another] = stack.account.live().filter(({ type }) => type === TARGET_GROUP);
      expect(another).toBeUndefined();
      const [binding] = await stack.list("elbv2.k8s.aws/v1beta1", "TargetGroupBinding");
      expect(binding?.spec).toMatchObject({ targetGroupARN: groups?.id });
      expect(await stack.deploymentUids()).toEqual(before);
    });

    const reachedFrom = (own: string) => ({
      ...lasting,
      gateway: PUBLIC_GATEWAY,
      access: { apiCidrs: [`${own}/32`] },
    });

    test("plain `pulumi up` from an address that the API does not answer opens it to the address in the stack file", async () => {
      address = "198.51.100.9";
      stack.configure(reachedFrom(address));
      const calls = await stack.callsOf(async () => {
        const { code, stdout, stderr } = await stack.plain("up", "--yes");
        expect(stdout + stderr).not.toContain("error:");
        expect(code).toBe(0);
      });
      expect(changesOf(calls)).toEqual(["update eks/cluster:Cluster"]);
      expect(stack.openNetworks()).toEqual(["198.51.100.9/32"]);
    });

    test("up from another new address opens the API before Pulumi reads the cluster", async () => {
      address = "198.51.100.10";
      stack.configure(reachedFrom(address));
      const calls = await stack.callsOf(() => stack.brought());
      expect(refusedOf(calls)).toEqual([]);
      expect(stack.openNetworks()).toEqual(["198.51.100.10/32"]);
      expect(await stack.callsOf(() => stack.brought())).toEqual([]);
    });

    test("down deletes StatefulSets and target group bindings in the cluster, and then the account's resources in order", async () => {
      const calls = await stack.callsOf(() => stack.succeed("down"));
      expect(refusedOf(calls)).toEqual([]);
      expect(stack.account.live()).toEqual([]);
      expect(changesOf(calls).filter((one) => !one.startsWith("delete "))).toEqual([]);
      expect(await stack.list("apps/v1", "StatefulSet")).toEqual([]);
      // Its controller removes targets from the load balancer's group, and must still run.
      expect(await stack.list("elbv2.k8s.aws/v1beta1", "TargetGroupBinding")).toEqual([]);
      // Nothing deletes them in the cluster: on EKS they end with it.
      expect(await stack.deploymentUids()).toHaveLength(3);
      // Machines leave before their way to the internet, and the cluster after them.
      const last = Math.max(...deletionsOf(calls, NODE_GROUP));
      expect(last).toBeLessThan(Math.min(...deletionsOf(calls, "aws:eks/cluster:Cluster")));
      expect(last).toBeLessThan(Math.min(...deletionsOf(calls, "aws:ec2/natGateway:NatGateway")));
      expect(last).toBeLessThan(Math.min(...deletionsOf(calls, "aws:ec2/route:Route")));
    });
  },
  missingPulumiPrograms("kubernetes"),
);

describeWithCluster(
  "prod on EKS, by the Pulumi CLI",
  (cluster) => {
    let stack: EksTestStack;
    const prod = { ...projectStackValues("Pulumi.prod.yaml"), namespace: "pulumi-eks-prod" };
    const setRetained = (isRetained: boolean) =>
      stack.configure({ ...prod, retain: isRetained ? [stack.stack.name] : [] });
    beforeAll(async () => {
      stack = new EksTestStack(cluster, prod);
      setRetained(true);
      await stack.prepare();
    });
    afterAll(() => stack?.dispose());

    test("up of prod creates the resources of the preview", async () => {
      const planned = await stack.previewed();
      expect(await stack.brought()).toEqual(planned);
      expect(refusedOf(stack.account.calls())).toEqual([]);
    });

    test("down of prod deletes nothing while the stack is retained", async () => {
      const calls = await stack.callsOf(async () => {
        const { code, stderr } = await stack.run("down");
        expect(code).not.toBe(0);
        expect(stderr).toMatch(
          /are protected \(.*cluster-cluster.*engine-store-files.*\), so nothing is deleted/,
        );
      });
      expect(calls).toEqual([]);
      expect(await stack.list("apps/v1", "StatefulSet")).toHaveLength(2);
    });

    test("down of prod deletes everything once retain no longer names the stack", async () => {
      setRetained(false);
      const calls = await stack.callsOf(() => stack.brought());
      // Protections, and daily copies: nothing is made or replaced in the account.
      expect(changesOf(calls).filter((change) => !change.startsWith("update "))).toEqual([
        "delete backup/plan:Plan",
        "delete backup/selection:Selection",
        "delete iam/role:Role",
        "delete iam/rolePolicyAttachment:RolePolicyAttachment",
      ]);
      const deletions = await stack.callsOf(() => stack.succeed("down"));
      expect(refusedOf(deletions)).toEqual([]);
      // The copies in it end by themselves.
      expect(stack.account.live().map(({ type }) => type)).toEqual(["aws:backup/vault:Vault"]);
    });
  },
  missingPulumiPrograms("kubernetes"),
);
