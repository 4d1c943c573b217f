/** Stacks in the states of the Pulumi CLI. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { CONFIG_NAMESPACE, formatPath } from "../../infra/problems.ts";
import { UserError } from "../errors.ts";
import { projectRoot } from "../program/stack-file.ts";
import { backendUrl, runPulumi } from "../stack/pulumi-cli.ts";
import { earlierBackend, stackPaths } from "../stack/stack-paths.ts";

/** Record of a stack in a state. */
export interface StackRecord {
  readonly name: string;
  /** Whether an operation runs, as far as the list of stacks shows. */
  readonly isUpdating: boolean;
  /** End of the last operation of any kind, in milliseconds of Unix time; null if the state does not say. */
  readonly lastOperation: number | null;
  /** The last `up`, whether it succeeded or not; null if the state has no `up` that ended. */
  readonly lastUp: {
    /** Its end, in milliseconds of Unix time. */
    readonly endTime: number;
    /** Its configuration: keys without the project's prefix, objects and arrays as such. */
    readonly values: Readonly<Record<string, unknown>>;
    /** Commit of its repository; null outside of a repository. */
    readonly commit: string | null;
    readonly hasSucceeded: boolean;
  } | null;
}

const HISTORY_PAGE_SIZE = 20;
const MAX_HISTORY_PAGES = 50;

/** Output of `pulumi stack ls --json`; `cmd/pulumi/stack/stack_list.go`. */
const listSchema = z.array(
  z.object({
    name: z.string(),
    lastUpdate: z.iso.datetime({ offset: true }).optional(),
    /** Only Pulumi Cloud has the number. */
    updateInProgress: z.boolean().default(false),
    resourceCount: z.int().optional(),
  }),
);

/** Output of `pulumi stack history --json`, the newest first; `cmd/pulumi/stack/stack_history.go`. */
const historySchema = z.array(
  z.object({
    /** `update` is an `up`; others, such as `destroy` and `refresh`, are not. */
    kind: z.string(),
    result: z.string(),
    /** Absent while it runs. */
    endTime: z.iso.datetime({ offset: true }).optional(),
    /** Secrets have no value. */
    config: z.record(
      z.string(),
      z.object({ value: z.string().optional(), objectValue: z.unknown().optional() }),
    ),
    /** Environment of the CLI: `git.head` is the commit of its folder; `pkg/cmd/pulumi/metadata/metadata.go`. */
    environment: z.record(z.string(), z.string()).optional(),
  }),
);

const COMMIT = /^[0-9a-f]{40}$/;

/** The backend that Pulumi uses, and the state of each stack that an earlier version kept in .stacks/. */
export function stateUrls(root: string = projectRoot): string[] {
  const folder = join(root, ".stacks");
  const names = existsSync(folder) ? readdirSync(folder).toSorted() : [];
  const earlier = names.flatMap((name) => earlierBackend(name, stackPaths(name, root)) ?? []);
  return [backendUrl(), ...earlier];
}

type ListedStack = Omit<StackRecord, "lastUp">;

export class PulumiState {
  readonly #executable: string;
  readonly #url: string;

  /** @param executable - The Pulumi CLI. @param url - URL of the state, in the CLI's form. */
  constructor(executable: string, url: string) {
    this.#executable = executable;
    this.#url = url;
  }

  /**
   * The project's stacks that have resources.
   *
   * @throws UserError if the state can't be read.
   */
  async stacks(): Promise<ListedStack[]> {
    const listed = await this.#json(["stack", "ls", "--json"], listSchema);
    return listed
      .filter(({ lastUpdate, updateInProgress, resourceCount }) =>
        lastUpdate === undefined ? updateInProgress : resourceCount !== 0,
      )
      .map(({ name, lastUpdate, updateInProgress }) => ({
        // Some backends print organization/project/stack.
        name: name.split("/").at(-1) ?? name,
        isUpdating: updateInProgress,
        lastOperation: lastUpdate === undefined ? null : Date.parse(lastUpdate),
      }));
  }

  /**
   * Operations before a successful `destroy` are of an earlier stack, whose name and history may have stayed.
   *
   * @throws UserError if the stack's history can't be read.
   */
  async lastUp(stack: string): Promise<StackRecord["lastUp"]> {
    for (let page = 1; page <= MAX_HISTORY_PAGES; page += 1) {
      const paging = ["--page-size", String(HISTORY_PAGE_SIZE), "--page", String(page)];
      const command = ["stack", "history", "--json", "--stack", stack, ...paging];
      const entries = await this.#json(command, historySchema);
      for (const { kind, result, endTime, config, environment } of entries) {
        if (kind === "destroy" && result === "succeeded") return null;
        if (kind === "update" && endTime !== undefined)
          return {
            endTime: Date.parse(endTime),
            values: valuesOf(config),
            commit: COMMIT.exec(environment?.["git.head"] ?? "")?.[0] ?? null,
            hasSucceeded: result === "succeeded",
          };
      }
      if (entries.length < HISTORY_PAGE_SIZE) return null;
    }
    return null;
  }

  /**
   * Writes the stack's configuration, as its last operation had it, into a file that commands take with `--config-file`.
   * Secrets in it stay encrypted.
   */
  async writeStackFile(stack: string, file: string): Promise<void> {
    await runPulumi(
      this.#executable,
      ["config", "refresh", "--force", "--config-file", file, "--stack", stack],
      this.#url,
    );
  }

  async #json<T>(command: readonly string[], schema: z.ZodType<T>): Promise<T> {
    const text = await runPulumi(this.#executable, command, this.#url);
    const result = schema.safeParse(parsed(text));
    if (result.success) return result.data;
    const wrong = result.error.issues.map(({ path, message }) => `${formatPath(path)}: ${message}`);
    throw new UserError(
      `The output of \`pulumi ${command.slice(0, 2).join(" ")}\` has an unexpected format (${wrong.join("; ")}).`,
    );
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A list or an object may have been set as JSON text, which the program also accepts. */
function valuesOf(config: z.infer<typeof historySchema>[number]["config"]): Record<string, unknown> {
  const prefix = `${CONFIG_NAMESPACE}:`;
  const own = Object.entries(config).filter(([key]) => key.startsWith(prefix));
  return Object.fromEntries(
    own.map(([key, { value, objectValue }]) => [
      key.slice(prefix.length),
      objectValue ?? (value === undefined ? "(secret)" : (parsed(value) ?? value)),
    ]),
  );
}
