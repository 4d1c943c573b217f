/** Planned stacks of `tier: gpu`, changed as little as a machine without GPU needs. */
import type { DockerContainer, DockerStack, ImageName } from "../../infra/plan/docker/types.ts";

/** What keeps a planned container from running on a machine of tests, by reason; all else is as planned. */
const corrections: Readonly<Record<string, (container: DockerContainer) => DockerContainer>> = {
  "no engine gives a GPU without NVIDIA's toolkit": (container) => ({ ...container, gpus: null }),
  "in a sandbox nobody may lock memory without limit": ({
    ulimits: { memlock: _, ...ulimits },
    ...rest
  }) => ({
    ...rest,
    ulimits,
  }),
};

/**
 * A stack's builds and servers, corrected. The gateway and the databases are left out, which the stack of `tier: cpu` tests.
 *
 * @param references - Of images that are on the host, by name; only their containers stay.
 * @param roles - Which of them.
 */
export function onThisMachine(
  stack: DockerStack,
  references: Readonly<Partial<Record<ImageName, string>>>,
  roles: readonly DockerContainer["role"][],
): DockerStack {
  return {
    ...stack,
    images: stack.images.flatMap(({ name }) => {
      const reference = references[name];
      return reference === undefined ? [] : [{ kind: "locked" as const, name, reference }];
    }),
    containers: stack.containers
      .filter(({ role }) => roles.includes(role))
      .map((container) => Object.values(corrections).reduce((one, correct) => correct(one), container)),
  };
}

/** The one of a role. */
export function containerOf({ containers }: DockerStack, role: DockerContainer["role"]): DockerContainer {
  const [container, ...others] = containers.filter((one) => one.role === role);
  if (container === undefined || others.length > 0)
    throw new Error(`The stack has ${others.length + (container ? 1 : 0)} containers of the role ${role}.`);
  return container;
}
