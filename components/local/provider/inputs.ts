/** Inputs and outputs of the three `local:` resources. */
import { z } from "zod";
import { isUsableRoot, projectRoot, UNUSABLE_ROOT } from "./files.ts";

/**
 * All paths are relative to the project's root, with `/` between plain names, so that neither the state nor a rendered
 * graph depends on where the project lies, and no path leaves the root or needs a quote.
 */
const projectPath = z
  .string()
  .max(200)
  .refine(
    (path) => path.split("/").every((segment) => /^(?!\.{1,2}$)[A-Za-z0-9._@+-]+$/.test(segment)),
    "must be a path below the project's root, made of letters, digits and . _ @ + - between slashes",
  );

/** Folder that this provider creates and deletes: below a stack's own folder, never the stack's folder itself. */
const stackContentPath = projectPath.regex(
  /^\.stacks\/[^/]+\/./,
  "must be in a stack's folder, as in .stacks/local/python",
);

const sha256Hex = z.string().regex(/^[0-9a-f]{64}$/, "must be a SHA-256: 64 lower-case hex digits");

/** Newest first. 3.13 is missing: the lock's NumPy 1 has no wheel for it, and Triton's stub cannot use NumPy 2. */
export const PYTHON_VERSIONS = ["3.12", "3.11", "3.10"] as const;

export const pythonEnvironmentInputs = z.strictObject({
  directory: stackContentPath.refine(() => isUsableRoot(projectRoot()), {
    error: () =>
      `The project is in ${JSON.stringify(projectRoot())}; ${UNUSABLE_ROOT.why} ${UNUSABLE_ROOT.fix}`,
  }),
  /** A lock with a hash for every file, as `uv pip compile --generate-hashes` writes it. */
  requirements: projectPath,
  /** Hash of the lock: makes a changed lock visible in a preview. */
  requirementsSha256: sha256Hex,
  /** Default: the newest that is installed. */
  pythonVersion: z.enum(PYTHON_VERSIONS).optional(),
});

export type PythonEnvironmentInputs = z.output<typeof pythonEnvironmentInputs>;

export type PythonEnvironmentOutputs = PythonEnvironmentInputs & {
  /** Interpreter: `<directory>/bin/python`. */
  readonly python: string;
};

/** Written text, or a copy of a project's file. */
const repositoryFile = z.union([
  z.strictObject({ text: z.string() }),
  z.strictObject({ source: projectPath, sha256: sha256Hex }),
]);

/** A folder that `python -m engine_room.cpu_models.build` makes, kept in the download cache for the next stack. */
const repositoryArtifact = z.strictObject({
  /** The builder's specification. */
  spec: z.record(z.string(), z.unknown()),
  /** Hash of the builder's own code: a changed builder builds again. */
  builderSha256: sha256Hex,
});

export const modelRepositoryInputs = z.strictObject({
  /** Root of the repository. */
  directory: stackContentPath,
  /** Interpreter that runs the builder. */
  python: projectPath,
  /** By path inside the repository. */
  files: z.record(projectPath, repositoryFile),
  /** By folder inside the repository. */
  artifacts: z.record(projectPath, repositoryArtifact),
  /** `jsonDigest` of `{ files, artifacts }`: the program computes it, so that a preview knows it. */
  digest: sha256Hex,
});

export type RepositoryFile = Readonly<z.output<typeof repositoryFile>>;
export type RepositoryArtifact = Readonly<z.output<typeof repositoryArtifact>>;
export type JsonObject = Readonly<Record<string, unknown>>;
export type ModelRepositoryInputs = z.output<typeof modelRepositoryInputs>;

export type ModelRepositoryOutputs = ModelRepositoryInputs & {
  /** `facts.json` of each artifact, by folder; an empty object if the builder wrote none. */
  readonly facts: Readonly<Record<string, JsonObject>>;
};

/** The name of supervisord itself among the processes of a stack. */
export const SUPERVISORD = "supervisord";

// The kernel passes arguments and variables as strings that end with a zero byte.
const passable = z.string().refine((text) => !text.includes("\0"), "must not hold a zero byte");

/**
 * A program that supervisord keeps running. `command`, the values of `environment` and `ready.url` may hold
 * `{port.NAME}` (a port of `requestedPorts`) and `{root}` (the project's root, absolute).
 * It starts in the project's root, with the interpreter's folder first on PATH and of the calling shell's variables only
 * HOME, LANG, LC_ALL, LOGNAME, PATH, TMPDIR, TZ and USER.
 */
export const processInputs = z.strictObject({
  /** Each stack has one supervisord. 60 characters leave room within the 108 bytes of a Unix socket's path. */
  stackDirectory: z
    .string()
    .regex(
      /^\.stacks\/(?!\.{1,2}$)[A-Za-z0-9._-]{1,60}$/,
      "must be .stacks/ and a stack's name of at most 60 letters, digits and . _ -",
    ),
  /** Unique in the stack. */
  name: z
    .string()
    .regex(
      /^(?!supervisord$)[a-z0-9][a-z0-9-]{0,62}$/,
      `must be made of lower-case letters, digits and -, 63 at most, and must not be ${SUPERVISORD}`,
    ),
  /** Interpreter of an environment that holds supervisor. */
  python: projectPath,
  /** Program and arguments; never a shell. */
  command: z.array(passable).refine(([program]) => program, "must name a program"),
  environment: z
    .record(z.string().regex(/^[A-Za-z_]\w*$/, "must be a variable's name: letters, digits and _"), passable)
    .default({}),
  /** TCP ports on 127.0.0.1 by name; 0 takes a free one, which is then kept. */
  requestedPorts: z.record(
    z.string().regex(/^[A-Za-z0-9_-]{1,40}$/, "must be made of letters, digits, _ and -"),
    z.int().min(0).max(65_535),
  ),
  /** Text by file name, written with mode 0600 to `<stackDirectory>/processes/<name>/`. */
  files: z
    .record(z.string().regex(/^(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}$/, "must be a plain file name"), z.string())
    .default({}),
  /** A changed trigger restarts the program. */
  triggers: z.array(z.string()).default([]),
  /** The program has started when `url` answers 200. */
  ready: z.strictObject({
    url: z
      .string()
      .regex(
        /^http:\/\/(127\.0\.0\.1|localhost):(\d+|\{port\.[A-Za-z0-9_-]+\})(\/|$)/,
        "must be a URL of this machine, as in http://127.0.0.1:{port.http}/healthz",
      ),
    timeoutSeconds: z.number().positive().max(86_400),
  }),
  /** From SIGTERM to SIGKILL. */
  stopTimeoutSeconds: z.int().min(1).max(3600).default(10),
  /** Lower starts earlier and stops later when supervisord starts or stops all. */
  priority: z.int().min(1).max(999).default(500),
});

export type ProcessInputs = z.output<typeof processInputs>;
export type Ports = Readonly<Record<string, number>>;
/** Ports by the names of `requestedPorts`. */
export type ProcessOutputs = ProcessInputs & { readonly ports: Ports };
