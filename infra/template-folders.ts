/** Reads the folders of `triton.templates`, which are beside the stack file: the plan itself reads no file. */
import { type Dirent, readdirSync, readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { StackConfig } from "./config/config.ts";
import { REQUIREMENTS_FILE } from "./plan/docker/python-packages.ts";
import type { TemplateFiles } from "./plan/spec.ts";
import { type Problem, showValue } from "./problems.ts";

/** All files of a folder together: pods get them in a ConfigMap of at most 1 MiB, with the rest of a server's description. */
const MOST_BYTES = 500_000;

/** A machine of EC2 gets a description in one document of Systems Manager, of 60 kB in base64 (plan/aws/machine/tasks.ts). */
const MOST_BYTES_ON_EC2 = 32_000;

const projectRoot = fileURLToPath(new URL("../", import.meta.url));

/**
 * Files of every folder that the stack file names, by its words for the folder; what can't be served is a problem.
 *
 * @param from - Folder from which relative ones start. @default this project's
 */
export function readTemplateFolders(
  config: StackConfig,
  from: string = projectRoot,
): {
  readonly templates: ReadonlyMap<string, TemplateFiles>;
  readonly problems: readonly Problem[];
} {
  const templates = new Map<string, TemplateFiles>();
  const problems: Problem[] = [];
  if (config.tier === "cpu") return { templates, problems };
  const isEc2 = "compute" in config && config.compute === "ec2";
  for (const [index, { triton }] of config.models.entries()) {
    if (triton.templates === undefined || templates.has(triton.templates)) continue;
    const { files, refused } = readOrRefuse(
      resolve(from, triton.templates),
      isEc2 ? MOST_BYTES_ON_EC2 : MOST_BYTES,
    );
    templates.set(triton.templates, files);
    const [path, value] = [`models[${index}].triton.templates`, showValue(triton.templates)];
    problems.push(...refused.map((problem) => ({ path, value, ...problem })));
  }
  return { templates, problems };
}

type Refused = Pick<Problem, "reason" | "fix">;

interface Folder {
  readonly files: TemplateFiles;
  readonly refused: readonly Refused[];
}

function readOrRefuse(folder: string, mostBytes: number): Folder {
  try {
    return readFolder(folder, mostBytes);
  } catch (error) {
    if (!(error instanceof Error && "syscall" in error)) throw error;
    const reason = `The folder ${folder} can't be read: ${error.message}.`;
    return { files: {}, refused: [{ reason, fix: "Make it and its files readable, or remove the key." }] };
  }
}

function readFolder(folder: string, mostBytes: number): Folder {
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true) {
    const fix =
      "Write the path of a folder from the project's folder on, where Pulumi.yaml is, or an absolute one.";
    return { files: {}, refused: [{ reason: `There is no folder ${folder}.`, fix }] };
  }
  const files: Record<string, string> = {};
  const refused: Refused[] = [];
  const entries = readdirSync(folder, { withFileTypes: true, recursive: true });
  const bytes = entries.reduce((sum, entry) => sum + servedBytes(folder, entry), 0);
  if (bytes > mostBytes) {
    const reason = `Its files have ${bytes} bytes, and servers of this platform get at most ${mostBytes}.`;
    const fix = "Put large files into an image of your own, and name it in image.base.";
    return { files, refused: [{ reason, fix }] };
  }
  for (const entry of entries.toSorted((a, b) => (pathOf(a) < pathOf(b) ? -1 : 1))) {
    const path = pathOf(entry).slice(folder.length + 1);
    if (entry.isDirectory()) continue;
    if (!entry.isFile()) {
      refused.push({
        reason: `${path} is ${entry.isSymbolicLink() ? "a link, which may lead out of the folder" : "no file"}.`,
        fix: "Put a copy of the file there.",
      });
      continue;
    }
    const content = readFileSync(join(folder, path));
    const text = content.toString("utf8");
    if (text.includes("\0") || !Buffer.from(text).equals(content)) {
      refused.push({ reason: `${path} is not text in UTF-8.`, fix: "Keep only text files there." });
    }
    files[path] = text;
  }
  if (Object.keys(files).length === 0 && refused.length === 0)
    refused.push({ reason: "The folder has no file.", fix: "Put a file there, or remove the key." });
  return { files, refused };
}

/** The image gets the list of packages, not servers; the plan counts a list that is short enough to be read. */
function servedBytes(folder: string, entry: Dirent): number {
  const path = pathOf(entry);
  const size = entry.isFile() ? statSync(path).size : 0;
  return path === join(folder, REQUIREMENTS_FILE) && size <= MOST_BYTES ? 0 : size;
}

function pathOf({ parentPath, name }: Dirent): string {
  return join(parentPath, name);
}
