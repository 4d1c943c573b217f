/**
 * `import { InferenceStack } from "engine-room"`: everything in a stack file, as a component of the caller's own Pulumi
 * program. All platforms are imported at once, because a constructor registers its children before it returns.
 */
import { isAbsolute } from "node:path";
import * as pulumi from "@pulumi/pulumi";
import { checkedPlan } from "./checked-plan.ts";
import type { StackFile } from "./config/config.ts";
import type { DeployedStack } from "./outputs.ts";
import type { Endpoints, ServedModel } from "./plan/endpoints.ts";
import { deploy as ec2 } from "./platforms/ec2.ts";
import { deploy as eks } from "./platforms/eks.ts";
import { deploy as kubernetes } from "./platforms/kubernetes.ts";
import type { Place } from "./platforms/program.ts";
import { ConfigError, formatPath, SECRET_PATHS } from "./problems.ts";

/** Ids that may be outputs of other resources: the number of resources does not depend on them. AWS' prefix of each. */
const ID_PREFIXES = { vpcId: "vpc", id: "subnet", fileSystemId: "fs", securityGroupId: "sg" } as const;

/** The same of an existing cluster, which has a name. */
const CLUSTER_NAME = { path: "cluster.existing.name", prefix: "cluster" } as const;

/** `T` with outputs at any depth. */
type Outputs<T> = T extends object
  ? { readonly [K in keyof T]: pulumi.Input<Outputs<T[K]>> }
  : pulumi.Input<T>;

/** `T` with outputs where they may be: ids of existing resources, and credentials. */
type WithOutputs<T> = T extends readonly (infer Entry)[]
  ? readonly WithOutputs<Entry>[]
  : T extends object
    ? {
        readonly [K in keyof T]: K extends "hub" | "externalDatabases"
          ? Outputs<T[K]>
          : K extends keyof typeof ID_PREFIXES
            ? pulumi.Input<T[K]>
            : K extends "cluster"
              ? ClusterWithOutputs<T[K]>
              : WithOutputs<T[K]>;
      }
    : T;

/** `cluster` of a stack on EKS: the name of an existing one may be an output. */
type ClusterWithOutputs<T> = {
  readonly [K in keyof T]: K extends "existing" ? WithName<NonNullable<T[K]>> | undefined : T[K];
};
type WithName<T> = { readonly [K in keyof T]: K extends "name" ? pulumi.Input<T[K]> : T[K] };

/**
 * The keys of a stack file (docs/stack-file/ has each with its default), without their namespace. Ids of an existing VPC, its
 * subnets, a file system and its security group and the name of an existing cluster may be outputs of other resources, and so may
 * credentials; every other value decides on resources, and is plain.
 */
export type InferenceStackArgs = WithOutputs<
  Exclude<StackFile, { readonly platform: "local" | "docker" }>
> & {
  /**
   * Kubeconfig of an existing cluster, for `platform: "kubernetes"`; it may be an output of the resource that makes the cluster.
   *
   * @default the context that the kubeconfig of this machine selects, or `cluster.context`
   */
  readonly kubeconfig?: pulumi.Input<string>;
};

/**
 * Models behind a gateway that speaks OpenAI's API, in a Kubernetes cluster, on EKS or on EC2. There may be
 * several in a program. Cost: that of the same stack file; `npx engine-room plan` shows it.
 *
 * @example
 * const chat = new InferenceStack("chat", {
 *   platform: "kubernetes",
 *   tier: "cpu",
 *   kubeconfig: cluster.kubeconfig,
 *   namespace: "chat",
 *   models: [{ name: "smollm2", model: "smollm2-135m-instruct" }],
 * });
 * export const url = chat.gateway;
 */
export class InferenceStack extends pulumi.ComponentResource {
  /** Base URL of the gateway. */
  readonly gateway: pulumi.Output<Endpoints["gateway"]>;
  /** URLs by what answers there, as `npx engine-room outputs --json` prints them. */
  readonly endpoints: pulumi.Output<Endpoints>;
  /** Served models, with the key of each engine and the pool that it runs on. */
  readonly models: pulumi.Output<readonly ServedModel[]>;
  /** Where weights and engines are kept. */
  readonly engineStore: pulumi.Output<string>;
  /** Limits that users of the models have to know. */
  readonly notes: pulumi.Output<readonly string[]>;

  /**
   * @param name - Letters, digits and hyphens; with the program's stack it begins labels, tags and physical names: `dev-chat`.
   * @throws ConfigError with every mistake in the arguments at once: path, value, reason, fix.
   */
  constructor(name: string, args: InferenceStackArgs, opts: pulumi.ComponentResourceOptions = {}) {
    const { kubeconfig, ...file } = args as Readonly<Record<string, unknown>>;
    const { values, outputs } = withoutOutputs(file);
    const fill = filler(outputs);
    // A URN has the types of its parents, and not their names: children of two such components have the same names.
    super(
      `engine-room:${name}:InferenceStack`,
      name,
      {},
      {
        ...opts,
        transformations: [
          ...(opts.transformations ?? []),
          // A resource that exists is read by its id.
          ({ props, opts }) => ({
            props: fill(props) as typeof props,
            opts: "id" in opts ? { ...opts, id: fill(opts.id) as pulumi.Input<pulumi.ID> } : opts,
          }),
        ],
      },
    );
    // The program's own, where its Pulumi.yaml is. It is "rootDirectory" where Pulumi was told of none.
    const root = pulumi.getRootDirectory();
    const { plan } = checkedPlan(values, isAbsolute(root) ? root : process.cwd());
    const place: Place = {
      name: `${pulumi.getStack()}-${name}`,
      parent: this,
      ...(kubeconfig === undefined ? {} : { kubeconfig: kubeconfig as pulumi.Input<string> }),
      secrets: (key) => pulumi.secret(pulumi.output(file[key])),
    };
    const { endpoints, models, engineStore, notes } = fill(register(plan, place)) as DeployedStack;
    this.endpoints = pulumi.output(endpoints) as pulumi.Output<Endpoints>;
    this.gateway = this.endpoints.apply(({ gateway }) => gateway);
    this.models = pulumi.output(models) as pulumi.Output<readonly ServedModel[]>;
    this.engineStore = pulumi.output(engineStore);
    this.notes = pulumi.output(notes) as pulumi.Output<readonly string[]>;
    this.registerOutputs({ endpoints: this.endpoints });
  }
}

function register(plan: ReturnType<typeof checkedPlan>["plan"], place: Place) {
  if (plan.platform === "local" || plan.platform === "docker")
    throw new ConfigError([
      {
        path: "platform",
        value: JSON.stringify(plan.platform),
        reason: "Its images or processes are made from a clone of engine-room, which a package is not.",
        fix: "Use kubernetes or aws here, or run `pulumi up` in a clone.",
      },
    ]);
  if (plan.platform === "kubernetes") return kubernetes(plan, place);
  return plan.compute === "eks" ? eks(plan, place) : ec2(plan, place);
}

/**
 * The values for the plan, with an id in place of each output that is one, and a mark in place of a secret.
 *
 * @returns Those outputs by their ids.
 * @throws ConfigError if another value is an output.
 */
function withoutOutputs(file: Readonly<Record<string, unknown>>) {
  const outputs = new Map<string, pulumi.Output<unknown>>();
  const plain = (value: unknown, path: readonly PropertyKey[]): unknown => {
    if (pulumi.Output.isInstance(value) || value instanceof Promise) {
      const key = formatPath(path);
      const prefix =
        key === CLUSTER_NAME.path
          ? CLUSTER_NAME.prefix
          : ID_PREFIXES[path.at(-1) as keyof typeof ID_PREFIXES];
      if (prefix === undefined) {
        if (SECRET_PATHS.includes(key)) return { secure: "output" };
        throw new ConfigError([
          {
            path: key,
            value: "an output",
            reason: "It decides on the resources of the stack, which are known before any of them is made.",
            fix: `Write a plain value; outputs may be ${Object.keys(ID_PREFIXES).join(", ")}, ${CLUSTER_NAME.path}, ${SECRET_PATHS.join(", ")} and kubeconfig.`,
          },
        ]);
      }
      const id = `${prefix}-${(outputs.size + 1).toString(16).padStart(17, "0")}`;
      outputs.set(id, pulumi.output(value));
      return id;
    }
    if (Array.isArray(value)) return value.map((inner, index) => plain(inner, [...path, index]));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, inner]) => [key, plain(inner, [...path, key])]),
    );
  };
  return { values: plain(file, []) as Record<string, unknown>, outputs };
}

/** Replaces ids in properties by their outputs. */
function filler(outputs: ReadonlyMap<string, pulumi.Output<unknown>>) {
  if (outputs.size === 0) return (value: unknown) => value;
  const ids = new RegExp(`(${[...outputs.keys()].join("|")})`);
  const fill = (value: unknown): unknown => {
    if (typeof value === "string") {
      const parts = value.split(ids).filter((part) => part !== "");
      if (!parts.some((part) => outputs.has(part))) return value;
      return pulumi.all(parts.map((part) => outputs.get(part) ?? part)).apply((all) => all.join(""));
    }
    if (pulumi.Output.isInstance(value)) return value.apply((inner) => pulumi.output(fill(inner)));
    if (
      pulumi.Resource.isInstance(value) ||
      value instanceof Promise ||
      typeof value !== "object" ||
      value === null
    )
      return value;
    if (Array.isArray(value)) return value.map(fill);
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, fill(inner)]));
  };
  return fill;
}
