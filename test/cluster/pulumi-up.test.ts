/**
 * Stacks in a cluster as their users have them: the project's own commands, the Pulumi CLI and its Kubernetes provider. No
 * container runs: KWOK says that builds have ended, and how.
 */
import { existsSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { failPod } from "../harness/kubernetes/builds.ts";
import { describeWithCluster } from "../harness/kubernetes/describe.ts";
import { conditionOf, type KubernetesObject } from "../harness/kubernetes/objects.ts";
import { missingPulumiPrograms } from "../harness/pulumi-programs.ts";
import { eventually } from "../harness/stack.ts";
import { PulumiStack } from "./pulumi-stack.ts";

const CPU_NAMESPACE = "pulumi-cpu";
const SERVICES = ["encoders", "gateway", "mongo", "smollm2", "vector"];

const cpuServer = {
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name: "smollm2", namespace: CPU_NAMESPACE },
};
const smollm2Model = { name: "smollm2", model: "smollm2-135m-instruct", contextTokens: 512 };
const cpuConfig = { tier: "cpu", namespace: CPU_NAMESPACE, models: [smollm2Model] };

describeWithCluster(
  "a stack of tier cpu in a cluster, by the Pulumi CLI",
  (cluster) => {
    const { api } = cluster;
    let stack: PulumiStack;

    async function replicas(): Promise<number | undefined> {
      const deployment = await api.get(cpuServer);
      return (deployment?.spec as { readonly replicas?: number } | undefined)?.replicas;
    }

    beforeAll(async () => {
      stack = new PulumiStack(cluster, cpuConfig);
      await stack.prepare();
    });

    afterAll(() => stack?.dispose());

    test("plain `pulumi up` creates every Service of a cpu stack, and neither a second run nor `up` changes anything", async () => {
      await stack.plain("stack", "init");
      const planned = /\+ (\d+) to create/.exec(await stack.plain("preview"))?.[1];
      expect(await stack.plain("up", "--yes")).toMatch(new RegExp(`\\+ ${planned} created`));
      expect(await stack.plain("up", "--yes")).toMatch(new RegExp(`${planned} unchanged`));
      expect(JSON.parse(await stack.plain("stack", "output", "endpoints"))).toHaveProperty("gateway");
      const before = await stack.versions();
      expect(Object.keys(before)).toEqual(expect.arrayContaining(SERVICES.map((name) => `Service/${name}`)));
      expect((await stack.succeed("up")).stderr).toMatch(/^ {2}\d+ unchanged$/m);
      await stack.succeed("preview", "--expect-no-changes");
      expect(await stack.versions()).toEqual(before);
    });

    test("up restores the number of replicas of a server that a user has scaled", async () => {
      for (const number of [0, 2]) {
        await api.scale(cpuServer, number);
        expect(await replicas()).toBe(number);
        await stack.succeed("up");
        expect(await replicas()).toBe(1);
      }
      // As an editor does, which also owns a number of zero.
      await api.patch(cpuServer, { spec: { replicas: 0 } });
      await stack.succeed("up");
      expect(await replicas()).toBe(1);
    });

    test("a changed model changes its own server and the gateway, even after its server was scaled", async () => {
      const before = await stack.versions();
      await api.patch(cpuServer, { spec: { replicas: 0 } });
      stack.configure({ ...cpuConfig, models: [{ ...smollm2Model, contextTokens: 768 }] });
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

    test("an autoscaler takes over existing servers, and up keeps its number of replicas", async () => {
      stack.configure({ ...cpuConfig, models: [{ ...smollm2Model, replicas: 3 }] });
      await stack.succeed("up");
      expect(await replicas()).toBe(3);
      const scaled = { ...smollm2Model, replicas: 3, minReplicas: 1 };
      stack.configure({ ...cpuConfig, models: [scaled] });
      await stack.succeed("up");
      expect(await replicas()).toBe(3);
      // Like the autoscaler.
      await api.scale(cpuServer, 2);
      stack.configure({ ...cpuConfig, models: [{ ...scaled, contextTokens: 1024 }] });
      await stack.succeed("up");
      expect(await replicas()).toBe(2);
      stack.configure(cpuConfig);
      await stack.succeed("up");
      expect(await replicas()).toBe(1);
    });

    test("plain `pulumi destroy` keeps the claims of the databases", async () => {
      await stack.plain("destroy", "--yes");
      expect(Object.keys(await stack.versions())).toEqual([
        "PersistentVolumeClaim/mock-data-mongo-0",
        "PersistentVolumeClaim/mock-data-vector-0",
      ]);
    });
  },
  missingPulumiPrograms("kubernetes"),
);

const GPU_NAMESPACE = "pulumi-gpu";
const TOKEN = "hub-token-of-the-test";

/** Claims of it may become larger. */
const storageClass = {
  apiVersion: "storage.k8s.io/v1",
  kind: "StorageClass",
  metadata: { name: "pulumi-gpu" },
  provisioner: "tests.example.org",
  allowVolumeExpansion: true,
};
const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name: GPU_NAMESPACE } };
const gpuServer = {
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name: "gpt", namespace: GPU_NAMESPACE },
};
const store = {
  apiVersion: "v1",
  kind: "PersistentVolumeClaim",
  metadata: { name: "engine-store", namespace: GPU_NAMESPACE },
};
/** Claims that `down` keeps; StatefulSets have created two of them. */
const KEPT = ["engine-store", "mock-data-mongo-0", "mock-data-vector-0"].map(
  (name) => `PersistentVolumeClaim/${name}`,
);

const gptModel = { name: "gpt", model: "gpt2-medium" };
const gpuConfig = {
  namespace: GPU_NAMESPACE,
  pools: [
    { name: "gpu", instanceType: "g5.12xlarge", nodes: { min: 1, max: 2 } },
    { name: "cpu", instanceType: "m7i.xlarge" },
  ],
  engineStore: { storageClass: storageClass.metadata.name, sizeGiB: 200 },
  hub: { token: TOKEN },
  models: [gptModel],
};

/** The stack file with other limits, which make another engine. */
function withOutputTokens(maxOutputTokens: number) {
  return { ...gpuConfig, models: [{ ...gptModel, limits: { maxOutputTokens } }] };
}

describeWithCluster(
  "a stack of tier gpu in a cluster, by the Pulumi CLI",
  (cluster) => {
    const { api } = cluster;
    let stack: PulumiStack;

    const engineBuilds = async () =>
      (await stack.list("batch/v1", "Job")).filter(({ metadata }) =>
        metadata.name.startsWith("gpt2-medium-"),
      );
    /** That of the engine that is served, which is the only one. */
    async function engineBuild(): Promise<KubernetesObject> {
      const [build, ...others] = await engineBuilds();
      if (build === undefined || others.length > 0) throw new Error("There is not one build.");
      return build;
    }
    /** Another one than that, with its pod. */
    const nextBuild = (old: KubernetesObject) =>
      eventually(async () => {
        const build = (await engineBuilds()).find(({ metadata }) => metadata.name !== old.metadata.name);
        if (build === undefined) return undefined;
        const labelSelector = `job-name=${build.metadata.name}`;
        const [pod] = await api.list("v1", "Pod", { namespace: GPU_NAMESPACE, labelSelector });
        return pod === undefined ? undefined : { build, pod };
      });
    const serverVersion = async () => (await stack.versions())["Deployment/gpt"];

    beforeAll(async () => {
      stack = new PulumiStack(cluster, gpuConfig);
      await api.apply(storageClass);
      await stack.prepare();
    });

    afterAll(async () => {
      await stack?.dispose();
      await api.remove(storageClass);
    });

    test("preview of a gpu stack creates neither its namespace nor its folder, and prints no token", async () => {
      const { stdout } = await stack.succeed("preview");
      expect(stdout).toMatch(/\+ create +\S+ \(Job\)/);
      expect(stdout).not.toContain(TOKEN);
      expect(await api.get(namespace)).toBeUndefined();
      expect(existsSync(stack.stack.directory)).toBe(false);
    });

    test("up builds the engine and serves it at the endpoints of its outputs, and neither log nor state has the token", async () => {
      const { stdout, stderr } = await stack.succeed("up");
      expect(stdout + stderr).not.toContain(TOKEN);
      expect(stack.stateFile()).not.toContain(TOKEN);
      expect(stack.stateFile()).not.toContain(Buffer.from(TOKEN).toString("base64"));
      expect(conditionOf(await engineBuild(), "Complete")?.status).toBe("True");
      expect(conditionOf((await api.get(gpuServer)) as KubernetesObject, "Available")?.status).toBe("True");

      const outputs = await stack.succeed("outputs", "--json");
      const named = [...outputs.stdout.matchAll(/\b([a-z0-9-]+)\.pulumi-gpu\.svc:/g)].map(
        ([, name]) => `Service/${name}`,
      );
      expect(new Set(named)).toEqual(
        new Set(Object.keys(await stack.versions()).filter((name) => name.startsWith("Service/"))),
      );
    });

    test("a second up of a gpu stack changes nothing", async () => {
      const before = await stack.versions();
      expect((await stack.succeed("up")).stderr).toMatch(/^ {2}\d+ unchanged$/m);
      await stack.succeed("preview", "--expect-no-changes");
      expect(await stack.versions()).toEqual(before);
    });

    test("changed limits build another engine, and only then change the server", async () => {
      const [old, before] = [await engineBuild(), await serverVersion()];
      stack.configure(withOutputTokens(128));
      expect((await stack.run("preview", "--expect-no-changes")).code).toBe(1);
      await stack.takePods(false);
      const up = stack.succeed("up");
      const { build } = await nextBuild(old);
      expect(await serverVersion()).toBe(before);
      await stack.takePods(true);
      await up;
      expect(await serverVersion()).not.toBe(before);
      // Nothing refers to the old build any more; its engine is in the store.
      expect((await engineBuild()).metadata.uid).toBe(build.metadata.uid);
    });

    test("a failed build ends up with its message, and the next plain `pulumi up` tries the build again", async () => {
      const [old, before] = [await engineBuild(), await serverVersion()];
      stack.configure(withOutputTokens(64));
      await stack.takePods(false);
      const up = stack.run("up");
      const { build, pod } = await nextBuild(old);
      await failPod(api, pod, 4, "the hub wants a token");
      await stack.takePods(true);
      const { code, stdout, stderr } = await up;
      expect(code).not.toBe(0);
      expect(stdout + stderr).toContain("the hub wants a token");
      expect(await serverVersion()).toBe(before);

      await stack.plain("up", "--yes");
      const { metadata } = await engineBuild();
      expect(metadata.name).toBe(build.metadata.name);
      expect(metadata.uid).not.toBe(build.metadata.uid);
      expect(await serverVersion()).not.toBe(before);
    });

    test("up creates a removed build again, and changes nothing else", async () => {
      const { metadata } = await engineBuild();
      const name = `Job/${metadata.name}`;
      const { [name]: vanished, ...others } = await stack.versions();
      await api.remove(await engineBuild());
      await stack.succeed("up");
      const { [name]: made, ...rest } = await stack.versions();
      expect(made).not.toBe(vanished);
      expect(rest).toEqual(others);
    });

    test("a changed whenFull replaces the PriorityClass of builds, and no workload", async () => {
      const building = {
        apiVersion: "scheduling.k8s.io/v1",
        kind: "PriorityClass",
        metadata: { name: `${GPU_NAMESPACE}-building` },
      };
      expect(await api.get(building)).toMatchObject({ value: 500, preemptionPolicy: "Never" });
      const before = await stack.versions();
      stack.configure({ ...withOutputTokens(64), engines: { whenFull: "stopServer" } });
      await stack.succeed("up");
      expect(await api.get(building)).toMatchObject({
        value: 2000,
        preemptionPolicy: "PreemptLowerPriority",
      });
      // Builds may take longer now, and no object is replaced.
      const uids = (versions: Record<string, string>) =>
        Object.fromEntries(Object.entries(versions).map(([name, text]) => [name, text.split(" ")[0]]));
      expect(uids(await stack.versions())).toEqual(uids(before));
    });

    test("down keeps namespace and claims, and the next up adopts them with its changes", async () => {
      const before = await stack.versions();
      const namespaceBefore = await api.get(namespace);
      await stack.succeed("down");
      expect(await stack.versions()).toEqual(Object.fromEntries(KEPT.map((name) => [name, before[name]])));
      expect((await api.get(namespace))?.metadata.uid).toBe(namespaceBefore?.metadata.uid);

      stack.configure({ ...gpuConfig, engineStore: { ...gpuConfig.engineStore, sizeGiB: 300 } });
      await stack.succeed("up");
      const after = await stack.versions();
      for (const name of KEPT) expect(after[name]).toBe(before[name]);
      const { spec } = (await api.get(store)) as KubernetesObject;
      expect(spec).toMatchObject({ resources: { requests: { storage: "300Gi" } } });
      expect((await stack.succeed("up")).stderr).toMatch(/^ {2}\d+ unchanged$/m);
    });

    test("up refuses the namespace of another stack", async () => {
      await stack.succeed("down");
      const label = "app.kubernetes.io/instance";
      await api.patch(namespace, { metadata: { labels: { [label]: "another" } } });
      const { code, stdout, stderr } = await stack.run("up");
      expect(code).not.toBe(0);
      expect(stdout + stderr).toMatch(
        /conflict with "engine-room-tests".*: \.metadata\.labels\.app\.kubernetes\.io\/instance/,
      );
      expect((await api.get(namespace))?.metadata.labels?.[label]).toBe("another");
      expect((await stack.versions())["Deployment/gpt"]).toBeUndefined();
    });
  },
  missingPulumiPrograms("kubernetes"),
);
