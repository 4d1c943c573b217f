/** What the states of the Pulumi CLI say of the stacks in them. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { CONFIG_NAMESPACE, formatPath } from "../../infra/problems.ts";
import { UserError } from "../errors.ts";
import { projectRoot } from "../program/stack-file.ts";
import { backendUrl, runPulumi } from "../stack/pulumi-cli.ts";
import { earlierBackend, stackPaths } from "../stack/stack-paths.ts";
import type { StackRecord } from "./lifetime.ts";

/** An `up` is rarely further back; one that is takes another question. */
const HISTORY_PAGE_SIZE = 20;
const MAX_HISTORY_PAGES = 50;

/** Of `pulumi stack ls --json`; `cmd/pulumi/stack/stack_list.go`. */
const listSchema = z.array(
  z.object({
    name: z.string(),
    lastUpdate: z.iso.datetime({ offset: true }).optional(),
    /** Only Pulumi Cloud knows. */
    updateInProgress: z.boolean().default(false),
    resourceCount: z.int().optional(),
  }),
);

/** Of `pulumi stack history --json`, the newest first; `cmd/pulumi/stack/stack_history.go`. */
const historySchema = z.array(
  z.object({
    /** `update` is an `up`; `destroy`, `refresh` and others are none. */
    kind: z.string(),
    result: z.string(),
    /** Absent while it goes on. */
    endTime: z.iso.datetime({ offset: true }).optional(),
    /** Secrets have no value. */
    config: z.record(
      z.string(),
      z.object({ value: z.string().optional(), objectValue: z.unknown().optional() }),
    ),
  }),
);

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

  /** @param executable - The Pulumi CLI. @param url - Of the state, as the CLI takes it. */
  constructor(executable: string, url: string) {
    this.#executable = executable;
    this.#url = url;
  }

  /**
   * The project's stacks that have resources.
   *
   * @throws UserError where the state can't be read.
   */
  async stacks(): Promise<ListedStack[]> {
    const listed = await this.#json(["stack", "ls", "--json"], listSchema);
    return listed
      .filter(({ lastUpdate, updateInProgress, resourceCount }) =>
        lastUpdate === undefined ? updateInProgress : resourceCount !== 0,
      )
      .map(({ name, lastUpdate, updateInProgress }) => ({
        // Some backends say where it belongs to: organization/project/stack.
        name: name.split("/").at(-1) ?? name,
        isUpdating: updateInProgress,
        lastOperation: lastUpdate === undefined ? null : Date.parse(lastUpdate),
      }));
  }

  /**
   * What was before a `destroy` that succeeded is of an earlier stack: its name and its history may have stayed.
   *
   * @throws UserError where the stack's history can't be read.
   */
  async lastUp(stack: string): Promise<StackRecord["lastUp"]> {
    for (let page = 1; page <= MAX_HISTORY_PAGES; page += 1) {
      const paging = ["--page-size", String(HISTORY_PAGE_SIZE), "--page", String(page)];
      const command = ["stack", "history", "--json", "--stack", stack, ...paging];
      const entries = await this.#json(command, historySchema);
      for (const { kind, result, endTime, config } of entries) {
        if (kind === "destroy" && result === "succeeded") return null;
        if (kind === "update" && endTime !== undefined)
          return { endTime: Date.parse(endTime), values: valuesOf(config) };
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
    await this.#run(["config", "refresh", "--force", "--config-file", file, "--stack", stack]);
  }

  async #json<T>(command: readonly string[], schema: z.ZodType<T>): Promise<T> {
    const text = await this.#run(command);
    const result = schema.safeParse(parsed(text));
    if (result.success) return result.data;
    const wrong = result.error.issues.map(({ path, message }) => `${formatPath(path)}: ${message}`);
    throw new UserError(
      `What \`pulumi ${command.slice(0, 2).join(" ")}\` prints is not what is expected (${wrong.join("; ")}).`,
    );
  }

  #run(command: readonly string[]): Promise<string> {
    return runPulumi(this.#executable, command, this.#url);
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

type ConfigEntry = z.infer<typeof historySchema>[number]["config"][string];

function valuesOf(config: Readonly<Record<string, ConfigEntry>>): Record<string, unknown> {
  const prefix = `${CONFIG_NAMESPACE}:`;
  return Object.fromEntries(
    Object.entries(config).flatMap(([key, entry]) =>
      key.startsWith(prefix) ? [[key.slice(prefix.length), entryValue(entry)]] : [],
    ),
  );
}

/** A list or an object may have been set as the text of its JSON; the program takes it that way too. */
function entryValue({ value, objectValue }: ConfigEntry): unknown {
  if (objectValue !== undefined) return objectValue;
  return value === undefined ? "(secret)" : (parsed(value) ?? value);
}
