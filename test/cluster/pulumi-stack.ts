/** A stack in the cluster that the project's own commands, the Pulumi CLI and its Kubernetes provider bring up. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { imageLock } from "../harness/image-lock.ts";
import type { ApiServer } from "../harness/kubernetes/api-server.ts";
import { applyAll } from "../harness/kubernetes/apply.ts";
import { claimVolumes } from "../harness/kubernetes/bring-up.ts";
import type { Connection } from "../harness/kubernetes/cluster.ts";
import { removeNamespace } from "../harness/kubernetes/cluster-setup.ts";
import { addNodes, removeNodes } from "../harness/kubernetes/nodes.ts";
import type { KubernetesObject } from "../harness/kubernetes/objects.ts";
import { renderedObjects } from "../harness/kubernetes/rendered.ts";
import { clusterPlanOf, nodesOf } from "../harness/kubernetes/stack-files.ts";
import { TestStack } from "../harness/stack.ts";

/** Kinds of objects that `down` deletes in a namespace, except those that it keeps. */
const KINDS = [
  ["apps/v1", "Deployment"],
  ["apps/v1", "StatefulSet"],
  ["batch/v1", "Job"],
  ["networking.k8s.io/v1", "NetworkPolicy"],
  ["policy/v1", "PodDisruptionBudget"],
  ["v1", "PersistentVolumeClaim"],
  ["v1", "ResourceQuota"],
  ["v1", "Secret"],
  ["v1", "Service"],
] as const;

export class PulumiStack {
  readonly stack: TestStack;
  readonly environment: NodeJS.ProcessEnv;
  readonly #api: ApiServer;
  readonly #namespace: string;
  readonly #files = mkdtempSync(join(tmpdir(), "engine-room-lock-"));
  #nodes: readonly KubernetesObject[] = [];
  #volumes: readonly KubernetesObject[] = [];

  /** @param config - Without platform; `namespace` is the stack's own. */
  constructor(
    { api, connection }: { readonly api: ApiServer; readonly connection: Connection },
    { namespace, ...config }: Readonly<Record<string, unknown>> & { readonly namespace: string },
  ) {
    this.#api = api;
    this.#namespace = namespace;
    this.stack = new TestStack("cluster", this.#whole(config));
    const lockFile = join(this.#files, "images.lock.json");
    this.environment = {
      ENGINE_ROOM_RUNNER: "",
      ENGINE_ROOM_IMAGE_LOCK: lockFile,
      KUBECONFIG: connection.kubeconfig,
    };
    writeFileSync(lockFile, imageLock(clusterPlanOf(this.stack.configFile)));
  }

  configure(config: Readonly<Record<string, unknown>>): void {
    this.stack.configure(this.#whole(config));
  }

  #whole(config: Readonly<Record<string, unknown>>): Record<string, unknown> {
    return { platform: "kubernetes", ...config, namespace: this.#namespace };
  }

  /** Creates the cluster owner's machines, and volumes, which no controller creates for claims here. */
  async prepare(): Promise<void> {
    const { objects } = await renderedObjects(this.stack.configFile, this.stack.name);
    this.#volumes = claimVolumes(objects);
    this.#nodes = nodesOf(this.stack.configFile);
    await addNodes(this.#api, this.#nodes);
    await applyAll(this.#api, this.#volumes);
  }

  /** Sets whether machines accept new pods; running pods stay. */
  async takePods(yes: boolean): Promise<void> {
    for (const node of this.#nodes) await this.#api.patch(node, { spec: { unschedulable: !yes } });
  }

  run(command: string, ...args: string[]) {
    return this.stack.runWith(this.environment, command, ...args);
  }

  succeed(command: string, ...args: string[]) {
    return this.stack.succeedWith(this.environment, command, ...args);
  }

  /** A command of Pulumi's own. @throws With what was printed, when the exit code is not 0. */
  async plain(command: string, ...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.stack.runPulumi(this.environment, command, ...args);
    if (code !== 0) throw new Error(`pulumi ${command} ended with ${code}:\n${stdout}\n${stderr}`);
    return stdout;
  }

  /** The CLI's state of the stack. */
  stateFile(): string {
    return this.stack.stateFile();
  }

  list(apiVersion: string, kind: string): Promise<KubernetesObject[]> {
    return this.#api.list(apiVersion, kind, { namespace: this.#namespace });
  }

  /** UID and generation by `Kind/name` of a stack's objects in its namespace: a change or replacement changes them. */
  async versions(): Promise<Record<string, string>> {
    const lists = await Promise.all(KINDS.map(([apiVersion, kind]) => this.list(apiVersion, kind)));
    return Object.fromEntries(
      lists
        .flat()
        .map(({ kind, metadata: { name, uid, generation = 0 } }) => [
          `${kind}/${name}`,
          `${uid} ${generation}`,
        ]),
    );
  }

  async dispose(): Promise<void> {
    try {
      await this.stack.dispose(this.environment);
    } finally {
      rmSync(this.#files, { recursive: true, force: true });
      await removeNamespace(this.#api, this.#namespace);
      for (const volume of this.#volumes) await this.#api.remove(volume);
      await removeNodes(this.#api, this.#nodes);
    }
  }
}
