/** What a stack would have in a cluster, as the API takes it, from the graph that `npx engine-room render` prints. */
import { readStackFile, stackReference } from "../../../scripts/program/stack-file.ts";
import { type RenderedStack, renderJson, renderStack } from "../../../scripts/render.ts";
import { program } from "../../infra/platforms/program.ts";
import type { KubernetesObject, ObjectMetadata } from "./objects.ts";

const SECRET = "[secret]";
const UNKNOWN = "[unknown]";
const CHART = "kubernetes:helm.sh/v3:Release";

type Resource = RenderedStack["resources"][number];

interface StackObjects {
  /** In an order in which each comes after all that it depends on; ready for `applyAll`. */
  readonly objects: readonly KubernetesObject[];
  /** Names of Helm releases, which no server takes as they are. */
  readonly charts: readonly string[];
  /** Of the stack; what only `up` knows is a placeholder. */
  readonly outputs: RenderedStack["outputs"];
}

/** The end of the program that is evaluated last: Pulumi's SDK has one stack in a process at a time. */
let lastRender: Promise<unknown> = Promise.resolve();

/** What `npx engine-room render` prints of a stack file. @throws Error with its problems. */
export async function renderedObjects(stackFile: string, stack = "tests"): Promise<StackObjects> {
  const config = readStackFile(stackReference(stack, stackFile));
  const render = lastRender.then(() => quietly(() => renderStack(stack, config, program(config))));
  lastRender = render.catch(() => {});
  return stackObjects(JSON.parse(renderJson(await render)) as RenderedStack);
}

/** Without the warnings of a program that no engine runs, such as those of images that nobody has pushed. */
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
 * Resources of the types `kubernetes:*`. Those that are only read are not the stack's; what is secret is empty, or stands for
 * itself.
 *
 * @throws Error where a value is known only after `up`, or a resource is none that the API has.
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

/** Each after its parent and what it depends on; the rest as they come. */
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
  // As Pulumi does: its own name and a few characters.
  const named = { name: `${name}-tests`, ...(metadata as Partial<ObjectMetadata>) };
  return { apiVersion, kind, metadata: named, ...(kind === "Secret" ? withoutSecrets(rest) : rest) };
}

/** Nobody reads the values here, but they have to be of the right form. */
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
