/** Eight frequent changes to stacks of the project: each is an edit of a stack file, or of versions of its providers. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import { stackDiff } from "../../../scripts/diff/compare.ts";
import type { StackDiff } from "../../../scripts/diff/types.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import type { RenderedResource } from "../../../scripts/render.ts";
import { renderedText } from "./fixtures.ts";

export const STACKS = ["prod", "dev", "onprem"] as const;
export type Stack = (typeof STACKS)[number];

interface Named {
  readonly name: string;
}
/** Values that the changes edit. */
interface StackValues {
  models: (Named & { [key: string]: unknown })[];
  pools: (Named & { [key: string]: unknown })[];
  gateway?: { apiKeys?: unknown[]; [key: string]: unknown };
  access?: { admins?: string[]; [key: string]: unknown };
  [key: string]: unknown;
}

interface Change {
  /** Reason why a stack can't have the change. */
  readonly except?: Readonly<Partial<Record<Stack, string>>>;
  /** Prepares the base for the change. */
  readonly before?: (values: StackValues, stack: Stack) => void;
  readonly edit?: (values: StackValues, stack: Stack) => void;
  /** Versions of the base's providers by name, and of the SDK as `pulumi`; the head has the tree's versions. */
  readonly versions?: Readonly<Record<string, string>>;
}

const hash = (digit: string) => digit.repeat(64);

const addKey = (values: StackValues, name: string, digit: string) => {
  values.gateway = { ...values.gateway };
  values.gateway.apiKeys = [...(values.gateway.apiKeys ?? []), { name, sha256: hash(digit) }];
};

/** The pool that serves the first model. */
const servingPool = ({ pools, models: [first] }: StackValues) =>
  pools.find(({ name }) => name === (first?.pool ?? "gpu")) ?? { name: "" };

export const CHANGES: Readonly<Record<string, Change>> = {
  "a model added": {
    edit: (values, stack) => {
      const pool = stack === "prod" ? { pool: "a10g" } : {};
      values.models.push({ name: "second", model: "gpt2-medium", ...pool });
      if (stack === "dev") Object.assign(servingPool(values), { nodes: { min: 0, max: 2 } });
      if (stack === "onprem") Object.assign(servingPool(values).machine as object, { gpus: 4 });
    },
  },
  "a release bumped": {
    before: (values) => Object.assign(values, { release: "25.06" }),
    edit: (values) => delete values.release,
  },
  "tensorParallel changed": {
    except: { dev: "its machine has one GPU", onprem: "its machine has two GPUs, and llava one server" },
    edit: (values) => {
      for (const model of values.models.filter(({ tensorParallel }) => tensorParallel === 2))
        model.tensorParallel = 4;
    },
  },
  "replicas changed": {
    edit: (values, stack) => {
      const last = values.models.at(-1);
      if (last !== undefined) last.replicas = 2;
      if (stack === "dev") Object.assign(servingPool(values), { nodes: { min: 0, max: 2 } });
      if (stack === "prod") Object.assign(values.pools[1] ?? {}, { nodes: { min: 0, max: 5 } });
      if (stack === "onprem") Object.assign(servingPool(values).machine as object, { gpus: 4 });
    },
  },
  "an instanceType changed": {
    edit: (values, stack) => {
      if (stack === "onprem")
        servingPool(values).machine = {
          gpu: "H100",
          gpus: 2,
          vcpus: 32,
          memoryGiB: 128,
          networkMbps: 10_000,
        };
      else
        Object.assign(values.pools.find(({ instanceType }) => String(instanceType).startsWith("g5.")) ?? {}, {
          instanceType: "g6e.4xlarge",
        });
      if (stack === "onprem") delete servingPool(values).nodeSelector;
    },
  },
  "API keys added, rotated and removed": {
    before: (values) => {
      addKey(values, "alice", "1");
      addKey(values, "bob", "2");
    },
    edit: (values) => {
      values.gateway = { ...values.gateway, apiKeys: (values.gateway?.apiKeys ?? []).slice(0, -2) };
      addKey(values, "carol", "3");
      addKey(values, "alice", "4");
    },
  },
  "a cluster admin added": {
    except: { onprem: "who administers its cluster is not the stack's" },
    edit: (values) => {
      const { access = {} } = values;
      values.access = {
        ...access,
        admins: [...(access.admins ?? []), "arn:aws:iam::999988887777:role/contractor"],
      };
    },
  },
  "providers upgraded": { versions: { aws: "7.47.0", kubernetes: "4.33.0", pulumi: "3.247.0" } },
};

/** Difference of the change, as if compared with a commit. */
export async function changeDiff(stack: Stack, { before, edit, versions = {} }: Change): Promise<StackDiff> {
  const base = (parse(readFileSync(join(projectRoot, `Pulumi.${stack}.yaml`), "utf8")) as { config: object })
    .config;
  const values = short(base);
  before?.(values, stack);
  const changed = structuredClone(values);
  edit?.(changed, stack);
  const [left, right] = [await renderedText(text(values), stack), await renderedText(text(changed), stack)];
  const resources = left.tree.resources?.map((resource) => ofVersion(resource, versions)) ?? null;
  const side = { ref: "origin/main", commit: "3f1c0de5a4b89d7766e2f0c1b2a39485d6e7f801", hasStack: true };
  const tree = { ...left.tree, resources, ...(versions.pulumi && { sdkVersion: versions.pulumi }) };
  return stackDiff(stack, { ...left, ...side, tree }, right);
}

function ofVersion(resource: RenderedResource, versions: Readonly<Record<string, string>>): RenderedResource {
  const provider = resource.type.replace("pulumi:providers:", "").split(":")[0] ?? "";
  const version = versions[provider];
  return version === undefined || resource.options.version === undefined
    ? resource
    : { ...resource, options: { ...resource.options, version } };
}

const NAMESPACE = "engine-room:";

function short(config: object): StackValues {
  return Object.fromEntries(
    Object.entries(config).map(([key, value]) => [key.replace(NAMESPACE, ""), value as unknown]),
  ) as StackValues;
}

function text(values: StackValues): string {
  return stringify({
    config: Object.fromEntries(Object.entries(values).map(([key, value]) => [`${NAMESPACE}${key}`, value])),
  });
}
