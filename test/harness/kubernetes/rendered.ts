/** Objects that a stack would have in a cluster, in the API's form, from the graph of `npx engine-room render`. */
import { readStackFile, stackReference } from "../../../scripts/program/stack-file.ts";
import { type RenderedStack, renderJson, renderStack } from "../../../scripts/render.ts";
import { program } from "../../infra/platforms/program.ts";
import type { KubernetesObject, ObjectMetadata } from "./objects.ts";

const SECRET = "[secret]";
const UNKNOWN = "[unknown]";
const CHART = "kubernetes:helm.sh/v3:Release";

type Resource = RenderedStack["resources"][number];

interface StackObjects {
  /** Each after its dependencies, ready for `applyAll`. */
  readonly objects: readonly KubernetesObject[];
  /** Names of Helm releases, which are not objects of the API. */
  readonly charts: readonly string[];
  /** Outputs of the stack, with placeholders for values that only `up` knows. */
  readonly outputs: RenderedStack["outputs"];
}

/** The end of the program that is evaluated last: Pulumi's SDK has one stack in a process at a time. */
let lastRender: Promise<unknown> = Promise.resolve();

/** The output of `npx engine-room render` for a stack file. @throws Error with its problems. */
export async function renderedObjects(stackFile: string, stack = "tests"): Promise<StackObjects> {
  const config = readStackFile(stackReference(stack, stackFile));
  const render = lastRender.then(() => quietly(() => renderStack(stack, config, program(config))));
  lastRender = render.catch(() => {});
  return stackObjects(JSON.parse(renderJson(await render)) as RenderedStack);
}

/** Runs without the warnings of a program that no engine runs, such as those of images that are not pushed. */
async function quietly<T>(work: () => Promise<T>): Promise<T> {
  const { warn } = console;
  console.warn = () => {};
  try {
    return await work();
  } finally {
    console.warn = warn;
  }
}

/**
 * Objects of the types `kubernetes:*`, without those that are only read. Secret values are empty, or the placeholder.
 *
 * @throws Error if a value is known only after `up`, or a resource is not an object of the API.
 */
export function stackObjects({
  resources,
  outputs,
}: Pick<RenderedStack, "resources" | "outputs">): StackObjects {
  const own = inOrder(resources).filter(
    ({ type, readId }) => type.startsWith("kubernetes:") && readId === undefined,
  );
  return {
    objects: own.filter(({ type }) => type !== CHART).map(objectOf),
    charts: own.filter(({ type }) => type === CHART).map(({ name }) => name),
    outputs,
  };
}

/** Each after its parent and its dependencies; otherwise in the given order. */
function inOrder(resources: readonly Resource[]): Resource[] {
  const byUrn = new Map(resources.map((resource) => [resource.urn, resource]));
  const ordered = new Set<Resource>();
  const place = (resource: Resource) => {
    if (ordered.has(resource)) return;
    for (const urn of [resource.parent, ...resource.dependencies]) {
      const before = byUrn.get(urn);
      if (before !== undefined) place(before);
    }
    ordered.add(resource);
  };
  for (const resource of resources) place(resource);
  return [...ordered];
}

function objectOf({ type, name, inputs }: Resource): KubernetesObject {
  const { apiVersion, kind, metadata = {}, ...rest } = inputs as Partial<KubernetesObject>;
  if (apiVersion === undefined || kind === undefined || kind.endsWith("List"))
    throw new Error(`${name} of type ${type} is no single object of the Kubernetes API.`);
  const unknown = pathOf(inputs, UNKNOWN);
  if (unknown !== undefined)
    throw new Error(
      `${unknown} of ${kind} ${name} is known only after \`up\`; give what it refers to a name of its own.`,
    );
  // Like Pulumi's auto-naming: the resource's name and a few characters.
  const named = { name: `${name}-tests`, ...(metadata as Partial<ObjectMetadata>) };
  return { apiVersion, kind, metadata: named, ...(kind === "Secret" ? withoutSecrets(rest) : rest) };
}

/** Gives secret values the form that the API requires; no one reads them here. */
function withoutSecrets({ data, stringData, ...rest }: Readonly<Record<string, unknown>>) {
  const known = (values: unknown, convert: (text: string) => string) =>
    typeof values !== "object" || values === null
      ? {}
      : Object.fromEntries(
          Object.entries(values).map(([key, value]) => [key, value === SECRET ? convert(SECRET) : value]),
        );
  return {
    ...rest,
    ...(data === undefined ? {} : { data: known(data, (text) => Buffer.from(text).toString("base64")) }),
    ...(stringData === undefined ? {} : { stringData: known(stringData, (text) => text) }),
  };
}

/** Path of the first value that equals one, such as `spec.template.metadata`. */
function pathOf(value: unknown, wanted: string): string | undefined {
  if (value === wanted) return "";
  if (typeof value !== "object" || value === null) return undefined;
  for (const [key, inner] of Object.entries(value)) {
    const path = pathOf(inner, wanted);
    if (path !== undefined) return path === "" ? key : `${key}.${path}`;
  }
  return undefined;
}
