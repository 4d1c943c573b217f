/** Planned stacks of `tier: gpu`, as planned: test/harness/docker/stand-ins.ts stands in for NVIDIA's toolkit. */
import type { DockerContainer, DockerStack, ImageName } from "../../infra/plan/docker/types.ts";

/**
 * A stack's builds and servers. The gateway and the databases are left out, which the stack of `tier: cpu` tests.
 *
 * @param references - Of images that are on the host, by name; only their containers stay.
 * @param roles - Which of them.
 */
export function partOf(
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
    containers: stack.containers.filter(({ role }) => roles.includes(role)),
  };
}

/** The one of a role. */
export function containerOf({ containers }: DockerStack, role: DockerContainer["role"]): DockerContainer {
  const [container, ...others] = containers.filter((one) => one.role === role);
  if (container === undefined || others.length > 0)
    throw new Error(`The stack has ${others.length + (container ? 1 : 0)} containers of the role ${role}.`);
  return container;
}
