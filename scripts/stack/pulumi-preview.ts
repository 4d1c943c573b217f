/** Previews as the Pulumi CLI prints them, and its input for them: a copy of the stack's file, and a state. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseDocument } from "yaml";
import { parsePreview } from "../diff/preview.ts";
import { stackSettings } from "../diff/stack-settings.ts";
import { errorWords, UserError } from "../errors.ts";
import { redacted } from "../program/serialized.ts";
import { projectName, projectRoot, readStackFile, type StackReference } from "../program/stack-file.ts";
import { PulumiError, runPulumi } from "./pulumi-cli.ts";
import { type Deployment, unfinishedResources } from "./state.ts";

/** Folder of the rules, as docs/policies.md describes them. */
export const POLICY_PACK = join(projectRoot, "policy");

/** Half an hour: a preview asks the account about each resource. */
const TIMEOUT_MILLISECONDS = 30 * 60_000;

/** A stack in a backend of the CLI. */
export interface StackPlace {
  readonly stack: StackReference;
  /** Path of the CLI. */
  readonly executable: string;
  /** Address of the backend. */
  readonly url: string;
}

/**
 * Output of `pulumi preview --json`; of a missing stack, against an empty state. Nothing is refreshed.
 *
 * @param state - State of the stack; undefined when the backend lacks it.
 * @throws UserError with the errors of its diagnostics and the CLI's words, if it fails.
 */
export async function previewJson(place: StackPlace, state: Deployment | undefined): Promise<string> {
  try {
    return await printedPreview(place, state, ["--json"]);
  } catch (error) {
    const secrets = [...stackSettings(place.stack).secrets.values()];
    throw withCause(error, secrets, (printed) => {
      try {
        parsePreview(printed, secrets);
        return "";
      } catch (found) {
        return errorWords(found);
      }
    });
  }
}

/**
 * The CLI's report on the policies in the same preview.
 *
 * @param state - As above. @throws UserError with it if a mandatory policy is broken, or the preview fails.
 */
export async function previewPolicies(place: StackPlace, state: Deployment | undefined): Promise<string> {
  const found = (printed: string) => printed.slice(Math.max(printed.indexOf("\nPolicies:"), 0)).trimStart();
  try {
    return found(await printedPreview(place, state, ["--policy-pack", POLICY_PACK]));
  } catch (error) {
    throw withCause(error, stackSettings(place.stack).secrets.values(), found);
  }
}

/** Output of the CLI before it failed, with the reason: a cause may be only on standard error. */
function withCause(error: unknown, secrets: Iterable<string>, found: (printed: string) => string): unknown {
  if (!(error instanceof PulumiError)) return error;
  const words = error.stdout === "" ? "" : found(error.stdout).trimEnd();
  return new UserError([words, redacted(error.message, secrets)].filter((part) => part !== "").join("\n"));
}

function printedPreview(
  { stack, executable, url }: StackPlace,
  state: Deployment | undefined,
  options: readonly string[],
): Promise<string> {
  return inTemporaryFolder(async (folder) => {
    const place = state === undefined ? `file://${folder}` : url;
    if (state === undefined) await makeStack({ stack, executable, url: place });
    const own = ["--stack", stack.name, "--config-file", copiedConfig(stack, folder)];
    const unfinished = unfinishedResources(state?.resources ?? []).flatMap((urn) => ["--replace", urn]);
    const command = ["preview", ...options, ...own, ...unfinished];
    return runPulumi(executable, command, place, projectRoot, TIMEOUT_MILLISECONDS);
  });
}

/** In a separate folder: the CLI would write an `encryptionsalt` into the stack's file of the project. */
export async function makeStack({ stack, executable, url }: StackPlace): Promise<void> {
  await inTemporaryFolder(async (folder) => {
    writeFileSync(join(folder, "Pulumi.yaml"), `name: ${projectName()}\nruntime: nodejs\n`);
    // It may name a secrets provider.
    copiedConfig(stack, folder);
    await runPulumi(executable, ["stack", "init", stack.name, "--no-select"], url, folder);
  });
}

/**
 * Copies the stack's file for the CLI, which writes into its file. A salt that encrypts nothing in it may be of another backend's stack;
 * without it the CLI uses this stack's own.
 *
 * @returns Its path.
 */
export function copiedConfig(stack: StackReference, folder: string): string {
  const { secretKeys } = readStackFile(stack);
  const document = parseDocument(readFileSync(stack.configFile, "utf8"));
  if (secretKeys.length === 0) document.delete("encryptionsalt");
  const file = join(folder, `Pulumi.${stack.name}.yaml`);
  writeFileSync(file, document.toString(), { mode: 0o600 });
  return file;
}

export async function inTemporaryFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-"));
  try {
    return await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
