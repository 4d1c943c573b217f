import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { eventually } from "../stack.ts";
import { ApiError, type ApiServer } from "./api-server.ts";
import { conditionOf, type KubernetesObject, nameOf } from "./objects.ts";

const ESTABLISHED_TIMEOUT_SECONDS = 120;

/** Text that the server answered with, by {@link nameOf} of the object. */
export type ApplyWarnings = Readonly<Record<string, readonly string[]>>;

export interface CustomResourceDefinition extends KubernetesObject {
  readonly spec: {
    readonly group: string;
    readonly names: { readonly kind: string };
    readonly versions: readonly {
      readonly name: string;
      readonly served: boolean;
      readonly schema?: object;
    }[];
  };
}

/**
 * Applies objects in their order, strictly. After definitions of kinds it waits until objects of them can be made.
 *
 * @throws ApiError with the object's name at the first that the server refuses.
 */
export async function applyAll(api: ApiServer, objects: readonly KubernetesObject[]): Promise<ApplyWarnings> {
  const warnings: Record<string, readonly string[]> = {};
  const defining: CustomResourceDefinition[] = [];
  for (const object of objects) {
    if (!isDefinition(object)) await established(api, defining.splice(0));
    const applied = await applyOne(api, object);
    if (applied.length > 0) warnings[nameOf(object)] = applied;
    if (isDefinition(object)) defining.push(object);
  }
  await established(api, defining);
  return warnings;
}

async function applyOne(api: ApiServer, object: KubernetesObject): Promise<readonly string[]> {
  try {
    return (await api.apply(object)).warnings;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    throw new ApiError(error.status, error.reason, `${nameOf(object)}: ${error.message}`);
  }
}

function isDefinition(object: KubernetesObject): object is CustomResourceDefinition {
  return object.kind === "CustomResourceDefinition";
}

async function established(api: ApiServer, definitions: readonly CustomResourceDefinition[]): Promise<void> {
  await Promise.all(
    definitions.map(async (definition) => {
      const { group, names, versions } = definition.spec;
      const served = versions.filter((version) => version.served);
      await eventually(async () => {
        const now = await api.get(definition);
        if (now === undefined || conditionOf(now, "Established")?.status !== "True") return undefined;
        for (const { name } of served)
          if (!(await api.knows(`${group}/${name}`, names.kind))) return undefined;
        return true;
      }, ESTABLISHED_TIMEOUT_SECONDS).catch(() => {
        throw new Error(`${nameOf(definition)} is not established after ${ESTABLISHED_TIMEOUT_SECONDS} s.`);
      });
    }),
  );
}

/** Definitions of the kinds of KEDA, the Prometheus operator and the Gateway API that stacks use. */
export function customResourceDefinitions(folder: string): CustomResourceDefinition[] {
  const files = readdirSync(folder).toSorted();
  return files.map((file) => parse(readFileSync(join(folder, file), "utf8")) as CustomResourceDefinition);
}
