/** What the three `local:` resources take and give. Pure types and names: the program, the provider and scripts share them. */

export const RESOURCE_TYPES = [
  "local:index:PythonEnvironment",
  "local:index:ModelRepository",
  "local:index:Process",
] as const;

export type ResourceType = (typeof RESOURCE_TYPES)[number];

type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
export type JsonObject = { readonly [key: string]: Json };

/**
 * All paths of all resources are relative to the project's root, with `/`, without `.` and `..`, so that neither the
 * state nor a rendered graph depends on where the project lies.
 */
export interface PythonEnvironmentInputs {
  /** Folder of the environment, below `.stacks/<stack>/`. */
  readonly directory: string;
  /** A lock with a hash for every file, as `uv pip compile --generate-hashes` writes it. */
  readonly requirements: string;
  /** SHA-256 of the lock, 64 lower-case hex digits: what makes a changed lock visible in a preview. */
  readonly requirementsSha256: string;
  /** `3.10` to `3.12`; the newest of them that is installed where it is absent. */
  readonly pythonVersion?: string;
}

export interface PythonEnvironmentOutputs extends PythonEnvironmentInputs {
  /** The interpreter: `<directory>/bin/python`. */
  readonly python: string;
  /** Of the interpreter, as in `3.11.2`. */
  readonly version: string;
  readonly sitePackages: string;
}

/** One file of a model repository: written text, or a copy of a project's file. */
export type RepositoryFile = { readonly text: string } | { readonly source: string; readonly sha256: string };

/** A folder that `python -m engine_room_models.build` makes, kept in the download cache for the next stack. */
export interface RepositoryArtifact {
  /** What the builder is given as its specification. */
  readonly spec: JsonObject;
  /** SHA-256 over the builder's own code: a changed builder builds again. */
  readonly builderSha256: string;
}

export interface ModelRepositoryInputs {
  /** Root of the repository, below `.stacks/<stack>/`. */
  readonly directory: string;
  /** Interpreter that runs the builder. */
  readonly python: string;
  /** By path inside the repository. */
  readonly files: Readonly<Record<string, RepositoryFile>>;
  /** By folder inside the repository. */
  readonly artifacts: Readonly<Record<string, RepositoryArtifact>>;
  /** `repositoryDigest` of files and artifacts. */
  readonly digest: string;
}

export interface ModelRepositoryOutputs extends ModelRepositoryInputs {
  /** What `facts.json` of each artifact says, by folder; an empty object where the builder wrote none. */
  readonly facts: Readonly<Record<string, JsonObject>>;
}

/**
 * A program that supervisord keeps running. `command`, the values of `environment` and `ready.url` may hold
 * `{port.NAME}` (a port of `requestedPorts`) and `{root}` (the project's root, absolute).
 * It starts in the project's root, with the interpreter's folder first on PATH and no variable of the calling shell
 * but HOME, LANG, LC_ALL, LOGNAME, PATH, TMPDIR, TZ and USER.
 */
export interface ProcessInputs {
  /** `.stacks/<stack>`: one supervisord for each. */
  readonly stackDirectory: string;
  /** Unique in the stack: lower-case letters, digits and `-`. */
  readonly name: string;
  /** Interpreter of an environment that holds supervisor. */
  readonly python: string;
  /** Program and arguments; never a shell. */
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** TCP ports on 127.0.0.1 by name; 0 stands for a free one, which is then kept. */
  readonly requestedPorts: Readonly<Record<string, number>>;
  /** Text by file name, written with mode 0600 to `<stackDirectory>/processes/<name>/`. */
  readonly files: Readonly<Record<string, string>>;
  /** Restarts the program when one of them changes. */
  readonly triggers: readonly string[];
  /** The program counts as started when `url` answers 200. */
  readonly ready: { readonly url: string; readonly timeoutSeconds: number };
  /** From SIGTERM to SIGKILL. */
  readonly stopTimeoutSeconds: number;
  /** 1 to 999: lower starts earlier and stops later when supervisord does it by itself. */
  readonly priority: number;
  /** Size of the log at which it is rotated. */
  readonly maxLogMiB: number;
  /** Rotated logs to keep. */
  readonly logBackups: number;
}

export interface ProcessOutputs extends ProcessInputs {
  /** By the names of `requestedPorts`. */
  readonly ports: Readonly<Record<string, number>>;
}
