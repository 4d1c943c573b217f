/** The CPU tier in a cluster as its user has it: the project's own commands, the Pulumi CLI and its Kubernetes provider. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeWithCluster } from "../harness/kubernetes/describe.ts";
import { missingPulumiPrograms } from "../harness/pulumi-programs.ts";
import { PulumiStack } from "./pulumi-stack.ts";

const NAMESPACE = "pulumi-cpu";
const SERVICES = ["encoders", "gateway", "mongo", "smollm2", "vector"];

const server = {
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name: "smollm2", namespace: NAMESPACE },
};
const model = { name: "smollm2", model: "smollm2-135m-instruct", contextTokens: 512 };
const config = { tier: "cpu", namespace: NAMESPACE, models: [model] };

describeWithCluster(
  "a stack of tier cpu in a cluster, by the Pulumi CLI",
  (cluster) => {
    const { api } = cluster;
    let stack: PulumiStack;

    async function replicas(): Promise<number | undefined> {
      const deployment = await api.get(server);
      return (deployment?.spec as { readonly replicas?: number } | undefined)?.replicas;
    }

    beforeAll(async () => {
      stack = new PulumiStack(cluster, config);
      await stack.prepare();
    });

    afterAll(() => stack?.dispose());

    test("up brings it up, and a second up changes nothing", async () => {
      await stack.succeed("up");
      const before = await stack.versions();
      expect(Object.keys(before)).toEqual(expect.arrayContaining(SERVICES.map((name) => `Service/${name}`)));
      expect((await stack.succeed("up")).stderr).toMatch(/Resources:\n\s+\d+ unchanged\n/);
      await stack.succeed("preview", "--expect-no-changes");
      expect(await stack.versions()).toEqual(before);
    });

    test("who has scaled a server to none, or to more, is overruled by the next up", async () => {
      for (const number of [0, 2]) {
        await api.scale(server, number);
        expect(await replicas()).toBe(number);
        await stack.succeed("up");
        expect(await replicas()).toBe(1);
      }
      // As an editor does it, which owns a number of none, too.
      await api.patch(server, { spec: { replicas: 0 } });
      await stack.succeed("up");
      expect(await replicas()).toBe(1);
    });

    test("a changed model changes its own server, and what asks it, however the server was scaled", async () => {
      const before = await stack.versions();
      await api.patch(server, { spec: { replicas: 0 } });
      stack.configure({ ...config, models: [{ ...model, contextTokens: 768 }] });
      expect((await stack.run("preview", "--expect-no-changes")).code).toBe(1);
      await stack.succeed("up");
      const after = await stack.versions();
      const workloads = Object.keys(after).filter((name) => /^(Deployment|StatefulSet)\//.test(name));
      expect(workloads.filter((name) => after[name] !== before[name])).toEqual([
        "Deployment/gateway",
        "Deployment/smollm2",
      ]);
      expect(await replicas()).toBe(1);
    });

    test("an autoscaler takes over the servers that are there, and its number stays", async () => {
      stack.configure({ ...config, models: [{ ...model, replicas: 3 }] });
      await stack.succeed("up");
      expect(await replicas()).toBe(3);
      const scaled = { ...model, replicas: 3, minReplicas: 1 };
      stack.configure({ ...config, models: [scaled] });
      await stack.succeed("up");
      expect(await replicas()).toBe(3);
      // As the autoscaler does it.
      await api.scale(server, 2);
      stack.configure({ ...config, models: [{ ...scaled, contextTokens: 1024 }] });
      await stack.succeed("up");
      expect(await replicas()).toBe(2);
      stack.configure(config);
      await stack.succeed("up");
      expect(await replicas()).toBe(1);
    });

    test("down leaves the documents", async () => {
      await stack.succeed("down");
      expect(Object.keys(await stack.versions())).toEqual([
        "PersistentVolumeClaim/mock-data-mongo-0",
        "PersistentVolumeClaim/mock-data-vector-0",
      ]);
    });
  },
  missingPulumiPrograms("kubernetes"),
);
