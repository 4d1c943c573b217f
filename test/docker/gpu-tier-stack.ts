/** Planned stacks of `tier: gpu`; test/harness/docker/stand-ins.ts replaces NVIDIA's toolkit. */
import { createHash } from "node:crypto";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { ContainerRole } from "../../infra/plan/containers/container.ts";
import type { DockerContainer } from "../../infra/plan/docker/container-args.ts";
import type { DockerStack } from "../../infra/plan/docker/docker-stack.ts";
import type { ImageName } from "../../infra/plan/docker/images.ts";

/**
 * A stack's containers of some roles, without the images that are not on the host. Gateway and databases are tested by the
 * stack of `tier: cpu`.
 *
 * @param references - References of images that are on the host.
 */
export function partOf(
  stack: DockerStack,
  references: Readonly<Partial<Record<ImageName, string>>>,
  roles: readonly ContainerRole[],
): DockerStack {
  return {
    ...stack,
    images: stack.images.flatMap(({ name }) => {
      const reference = references[name];
      return reference === undefined ? [] : [{ kind: "locked" as const, name, reference }];
    }),
    containers: stack.containers.filter(({ container }) => roles.includes(container.role)),
  };
}

/** The only container of a role. */
export function containerOf({ containers }: DockerStack, role: ContainerRole): DockerContainer {
  const [container, ...others] = containers.filter((planned) => planned.container.role === role);
  if (container === undefined || others.length > 0)
    throw new Error(`The stack has ${others.length + (container ? 1 : 0)} containers of the role ${role}.`);
  return container;
}

/** Parts of server.json. */
export interface EncodersSpec {
  readonly release: object;
  readonly engineDirectory: string;
  readonly repository: {
    readonly models: readonly { readonly name: string; readonly files: Readonly<Record<string, string>> }[];
  };
}

/** Writes the files of a build for a CPU, with a few bytes in each. @param store - Folder of the host for `/store`. */
export function fillEncoders(store: string, { engineDirectory, release, repository }: EncodersSpec): void {
  const folder = join(store, engineDirectory.replace(/^\/store\//, ""));
  const files = [...new Set(repository.models.flatMap((model) => Object.values(model.files)))].map((path) => {
    const content = `content of ${path}`;
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
    return { path, bytes: content.length, sha256: createHash("sha256").update(content).digest("hex") };
  });
  const key = (engineDirectory.split("/").at(-1) ?? "").padEnd(64, "0");
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  const manifest = { version: 1, kind: "encoders", key, release, gpu: null, bytes, files };
  writeFileSync(join(folder, "manifest.json"), JSON.stringify(manifest));
  // The containers have another user.
  chmodSync(store, 0o755);
}
