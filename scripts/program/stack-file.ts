/** Project and stack files of Pulumi, read as the CLI reads them. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import { stackKinds } from "../../infra/config/config.ts";
import {
  parseStackText,
  runtimeText,
  type StackText,
  shownEntry,
  withLines,
} from "../../infra/config/stack-text.ts";
import {
  CONFIG_NAMESPACE,
  ConfigError,
  isSecure,
  nearestName,
  type Problem,
  pathParts,
} from "../../infra/problems.ts";

/** Folder of Pulumi.yaml. */
export const projectRoot = fileURLToPath(new URL("../../", import.meta.url));

/** Configuration in the form of the Pulumi runtime: every value a text, objects as JSON. */
export interface RuntimeConfig {
  readonly values: Readonly<Record<string, string>>;
  readonly secretKeys: readonly string[];
  /** A sentence on parts of the stack file that only the Pulumi CLI applies; absent: nothing. */
  readonly leftOut?: string;
}

/** A stack by its name, with the file that configures it. */
export interface StackReference {
  readonly name: string;
  /** Absolute path. */
  readonly configFile: string;
}

/** Options with which a command in the project's folder selects the same stack. */
export function stackOptions({ name, configFile }: StackReference): string {
  if (configFile === join(projectRoot, `Pulumi.${name}.yaml`)) return `--stack ${name}`;
  const inProject = relative(projectRoot, configFile);
  return `--stack ${name} --config-file ${inProject.startsWith("..") ? configFile : inProject}`;
}

/**
 * @param configFile - Relative to the user's folder. @default Pulumi.<name>.yaml of the project
 * @throws ConfigError for a name that Pulumi would refuse.
 */
export function stackReference(name: string, configFile?: string): StackReference {
  if (!/^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}$/.test(name)) {
    throw new ConfigError([
      {
        path: "--stack",
        value: JSON.stringify(name),
        reason: "A stack name has letters, digits, `.`, `_` and `-`, at most 100, and no dot first.",
        fix: "Use such a name.",
      },
    ]);
  }
  return {
    name,
    configFile:
      configFile === undefined
        ? join(projectRoot, `Pulumi.${name}.yaml`)
        : resolve(callerDirectory(), configFile),
  };
}

/** npm runs scripts in the project's folder, and names the caller's folder in a variable. */
export function callerDirectory(): string {
  return process.env.INIT_CWD ?? process.cwd();
}

/** `name:` of Pulumi.yaml. */
export function projectName(root: string = projectRoot): string {
  const project = parse(readFileSync(join(root, "Pulumi.yaml"), "utf8")) as { name: string };
  return project.name;
}

/** Stacks that have a file in the project. */
export function stackNames(root: string = projectRoot): string[] {
  return stackNamesOf(readdirSync(root));
}

/** Stacks with a file in a folder, by the files' names; sorted. */
export function stackNamesOf(files: readonly string[]): string[] {
  return files.flatMap((file) => /^Pulumi\.([A-Za-z0-9_.-]+)\.yaml$/.exec(file)?.[1] ?? []).toSorted();
}

/** @throws ConfigError if the stack has no file. */
export function requireStackFile({ name, configFile }: StackReference): void {
  if (!statSync(configFile, { throwIfNoEntry: false })?.isFile())
    throw new ConfigError([missing(name, configFile)]);
}

/**
 * Reads the file of a stack. Values under `secure:` are not decrypted: only the CLI holds the key, so they remain opaque secrets and no
 * code here ever sees the plain text.
 *
 * @throws ConfigError when the file is missing, is not a YAML mapping, or has a key that nothing reads.
 */
export function readStackFile(stack: StackReference): RuntimeConfig {
  requireStackFile(stack);
  const name = typedPath(stack);
  const text = parseStackText(name, readFileSync(stack.configFile, "utf8"));
  const found = text.problems.length > 0 ? text.problems : namespaceProblems(text);
  if (found.length > 0) throw new ConfigError(found, name);
  const entries = Object.entries(text.config);
  return {
    values: Object.fromEntries(entries.map(([key, value]) => [key, runtimeText(value)])),
    secretKeys: entries.flatMap(([key, value]) => (containsSecure(value) ? [key] : [])),
    ...(text.hasEnvironment ? { leftOut: LEFT_OUT } : {}),
  };
}

const LEFT_OUT =
  "`environment:` of the stack file is not applied here: only the Pulumi CLI reads values from Pulumi ESC.";

/** An error about a stack's configuration with the lines of its file, if known; another error unchanged. */
export function withStackLines(error: unknown, stack: StackReference): unknown {
  return withLines(error, stack.configFile, typedPath(stack));
}

/** Path of the stack's file as the user would type it. */
export function typedPath({ configFile }: StackReference): string {
  const path = relative(callerDirectory(), configFile);
  return path.startsWith("..") ? configFile : path;
}

/**
 * Keys of other namespaces belong to providers, to the CLI, or to the user, and are not changed. A key that is meant for this program and
 * has another namespace would be ignored.
 */
function namespaceProblems({ config, lineOf }: StackText): Problem[] {
  return Object.keys(config).flatMap((path) => {
    const [namespace = "", name] = path.split(":", 2);
    const reason = namespaceMistake(namespace, name);
    if (reason === undefined) return [];
    const fix = `Write \`${CONFIG_NAMESPACE}:${name ?? path}\`.`;
    const problem = { path, value: shownEntry(config, path), reason, fix };
    const line = lineOf(path);
    return [line === undefined ? problem : { ...problem, line }];
  });
}

/** @param name - undefined when the key has no namespace, and `namespace` is the whole key. */
function namespaceMistake(namespace: string, name: string | undefined): string | undefined {
  if (name === undefined) return "The key has no namespace, so nothing reads it.";
  if (namespace === CONFIG_NAMESPACE) return undefined;
  // The CLI gives a key without namespace that of the project.
  const isOfProject =
    namespace === projectName() &&
    stackKinds.some(({ schema }) => Object.hasOwn(schema.shape, pathParts(name)[0] ?? ""));
  return isOfProject || nearestName(namespace, [CONFIG_NAMESPACE]) !== undefined
    ? `The namespace is ${CONFIG_NAMESPACE}, not ${namespace}, whatever the project is called.`
    : undefined;
}

function containsSecure(value: unknown): boolean {
  if (isSecure(value)) return true;
  return typeof value === "object" && value !== null && Object.values(value).some(containsSecure);
}

function missing(stack: string, configFile: string): Problem {
  const isOwn = configFile === stackReference(stack).configFile;
  const file = isOwn ? basename(configFile) : configFile;
  const nearest = nearestName(stack, stackNames());
  return {
    path: isOwn ? file : "--config-file",
    value: isOwn ? "(absent)" : file,
    reason: `The stack ${stack} has no file ${file}.`,
    fix: !isOwn
      ? "Give the path of a file that exists."
      : nearest !== undefined
        ? `Did you mean --stack ${nearest}?`
        : `Write it, name another file with --config-file, or use one of ${stackNames().join(", ")} with --stack.`,
  };
}
