/** Has a tree's own code plan and render a stack, in processes of their own. */
import { mkdtemp, readFile, realpath } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ZodError } from "zod";
import { exists, orWhenMissing } from "../../components/local/provider/files.ts";
import { UserError } from "../errors.ts";
import { runProcess } from "./child-process.ts";
import { parseRenderedTree, type RenderedTree, unrendered } from "./rendered-tree.ts";
import { withFolder } from "./temporary-folders.ts";

const TIMEOUT_SECONDS = 120;

/** Of a text of any program. */
const MOST_FAILURE_CHARACTERS = 500;

/** Relative to the project. A tree without it has commands that say the same. */
const CHILD = "scripts/diff/render-child.ts";

interface RenderRequest {
  /** Absolute path of a project with its npm packages. */
  readonly project: string;
  readonly stack: string;
  /** Absolute path. */
  readonly configFile: string;
  /** Of this comparison: secrets that differ get marks that differ. */
  readonly secretKey: string;
}

/** A tree that can't be rendered says why in `failure`; nothing is thrown for what its code does. */
export async function renderTree(request: RenderRequest): Promise<RenderedTree> {
  const tree = await withFolder(await mkdtemp(join(tmpdir(), "engine-room-render-")), (folder) =>
    renderInto(request, folder).catch(unrenderedFor),
  );
  const places = [request.project, await realpath(request.project)];
  const shown = (text: string) => withoutPlaces(text, places);
  return {
    ...tree,
    failure: tree.failure === null ? null : shown(tree.failure).slice(0, MOST_FAILURE_CHARACTERS),
    problems: tree.problems.map((problem) => ({
      ...problem,
      value: shown(problem.value),
      reason: shown(problem.reason),
      fix: shown(problem.fix),
    })),
  };
}

async function renderInto(request: RenderRequest, folder: string): Promise<RenderedTree> {
  const hasChild = await exists(join(request.project, CHILD));
  return hasChild ? byChild(request, folder) : byCommands(request, folder);
}

function unrenderedFor(error: unknown): RenderedTree {
  if (error instanceof UserError) return unrendered(error.message);
  if (error instanceof SyntaxError || error instanceof ZodError)
    return unrendered("What its program prints of the stack has a form that can't be read.");
  throw error;
}

/** Where a tree and its packages lie is another place each time: paths are shown as they are in the tree. */
function withoutPlaces(text: string, places: readonly string[]): string {
  return places
    .flatMap((place) => [`file://${place}/`, `${place}/`])
    .reduce((shown, place) => shown.replaceAll(place, ""), text)
    .replaceAll(/(?:file:\/\/)?\/[^\s"'`]*\/node_modules\//g, "node_modules/");
}

async function byChild(request: RenderRequest, folder: string): Promise<RenderedTree> {
  const out = join(folder, "rendered.json");
  await runNode(
    request,
    [...(await launcher(request.project)), CHILD, request.stack, request.configFile, out],
    { ENGINE_ROOM_SECRET_MARK_KEY: request.secretKey },
  );
  return parseRenderedTree(await readFile(out, "utf8"), true);
}

/** A tree whose bundle has the entry point loads it from there, in half the time; an older one by tsx. */
async function launcher(project: string): Promise<readonly string[]> {
  const entryPoints = await readFile(join(project, "loader/import-source.mjs"), "utf8").catch(
    orWhenMissing(""),
  );
  return entryPoints.includes(`"${CHILD}"`) ? ["loader/run.mjs"] : ["--import", "tsx"];
}

/** `plan` ends with exit code 1 and JSON where the stack file has problems. */
async function byCommands(request: RenderRequest, folder: string): Promise<RenderedTree> {
  const out = join(folder, "graph.json");
  const command = (name: string, ...options: readonly string[]) =>
    runNode(
      request,
      ["scripts/cli.mjs", name, "--stack", request.stack, "--config-file", request.configFile, ...options],
      {},
      [0, 1],
    );
  const planned = await command("plan", "--json");
  if (planned.stdout === "") throw new UserError(lastWords(planned.stderr));
  const found = JSON.parse(planned.stdout) as object;
  if ("problems" in found) return parseRenderedTree(planned.stdout, false);
  const { stderr } = await command("render", "--out", out);
  const graph = await readFile(out, "utf8").catch(orWhenMissing(undefined));
  return parseRenderedTree(
    JSON.stringify({
      ...found,
      ...(graph === undefined ? { failure: lastWords(stderr) } : { graph: JSON.parse(graph) }),
    }),
    false,
  );
}

/** What a program needs to run; tokens and passphrases of the caller are none of it. */
const PASSED_ON = ["PATH", "HOME", "TMPDIR", "LANG", "TZ", "XDG_CACHE_HOME", "ENGINE_ROOM_CACHE_DIR"];

async function runNode(
  { project }: RenderRequest,
  argv: readonly string[],
  environment: NodeJS.ProcessEnv,
  goodExitCodes: readonly number[] = [0],
): Promise<{ readonly stdout: string; readonly stderr: string }> {
  const passedOn = PASSED_ON.flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  const result = await runProcess(process.execPath, argv, {
    cwd: project,
    environment: { ...Object.fromEntries(passedOn), ...environment },
    timeoutSeconds: TIMEOUT_SECONDS,
  });
  if (goodExitCodes.includes(result.exitCode)) return result;
  throw new UserError(`Its program ended with exit code ${result.exitCode}: ${lastWords(result.stderr)}`);
}

/** The message of an error, without the stack trace that Node prints below it. */
function lastWords(stderr: string): string {
  const lines = stderr.split("\n").filter((line) => line.trim() !== "");
  const message = lines.findLast((line) => /^(\w*Error\b.*: |\s+\d+\. )/.test(line)) ?? lines.at(-1);
  return message?.trim() ?? "it said nothing.";
}
