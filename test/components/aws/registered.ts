/** Resources that a component registers, under the SDK's own monitor for tests. */
import type { AwsContext } from "../../../infra/plan/aws/context.ts";
import type { MonitorOwner, Registration } from "../../../scripts/program/monitor.ts";
import { runProgram } from "../../../scripts/program/run-program.ts";
import type { Properties } from "../../../scripts/program/serialized.ts";
import { withPlainTraces } from "../../infra/platforms/program.ts";

export const CONTEXT: AwsContext = {
  stack: "demo",
  name: "engine-room-demo",
  account: "111122223333",
  region: "eu-west-1",
  partition: "aws",
  cluster: "engine-room-demo",
  isRetained: false,
  kmsKeyArn: undefined,
  iam: {},
  tags: { "app.kubernetes.io/managed-by": "engine-room", "engine-room:stack": "demo" },
  lastingTags: { "app.kubernetes.io/managed-by": "engine-room", "engine-room:stack": "demo" },
};

/** Outputs that AWS would give, by type; the others give back their inputs. */
type Outputs = Readonly<Record<string, (inputs: Properties) => Properties>>;

/** Every resource that `create` registers, without the stack itself. Their ids are their names. */
export async function registeredBy(
  create: () => unknown,
  outputs: Outputs = {},
  { preview = false }: { readonly preview?: boolean } = {},
): Promise<readonly Registration[]> {
  const made: Registration[] = [];
  const owner: MonitorOwner = {
    register: async (registration) => {
      made.push(registration);
      const { type, name, inputs } = registration;
      return {
        id: name,
        outputs: { ...inputs, arn: `arn:of:${name}`, ...outputs[type]?.(inputs) },
      };
    },
    registerOutputs: () => undefined,
  };
  const program = async () => {
    create();
    return {};
  };
  const config = { values: {}, secretKeys: [] };
  await withPlainTraces(() => runProgram({ stack: CONTEXT.stack, config, preview, owner, program }));
  return made.filter(({ type }) => type !== "pulumi:pulumi:Stack");
}

/** `type name < parent`, sorted: the exact children of a component. */
export function treeOf(registrations: readonly Registration[]): readonly string[] {
  const nameOf = (urn: string) => urn.slice(urn.lastIndexOf("::") + 2);
  return registrations.map(({ type, name, parent }) => `${type} ${name} < ${nameOf(parent)}`).sort();
}

/** The resource of that name. @throws Error unless there is exactly one. */
export function byName(registrations: readonly Registration[], name: string): Registration {
  const [found, ...others] = registrations.filter((one) => one.name === name);
  if (found === undefined || others.length > 0) throw new Error(`${others.length} more of ${name}`);
  return found;
}

/** Creates a value that several tests of a file only read on first use. */
export function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
