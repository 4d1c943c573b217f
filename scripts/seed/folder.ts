/** A folder of pictures and captions as entries. */
import { createReadStream } from "node:fs";
import { readdir, realpath } from "node:fs/promises";
import { basename, extname, join, relative, resolve, sep } from "node:path";
import { createInterface } from "node:readline";
import { z } from "zod";
import { UserError } from "../errors.ts";
import { type Entry, EntryError, type Failure, PICTURE_TYPES } from "./documents.ts";

const CAPTIONS = [".jsonl", ".ndjson"];

const captionSchema = z
  .strictObject({
    file: z.string().min(1).optional(),
    text: z.string().min(1).optional(),
    id: z.string().min(1).optional(),
    metadata: z.record(z.string(), z.unknown()).optional(),
  })
  .refine(({ file, text }) => file !== undefined || text !== undefined, "it needs `file`, `text` or both");

export interface FolderContent {
  readonly entries: readonly Entry[];
  /** Unusable lines. */
  readonly failures: readonly Failure[];
}

/**
 * Reads a folder's entries: the lines of every `*.jsonl` and `*.ndjson` at its top, then the pictures of the folder and
 * its subfolders without a line, whose text is their file name.
 *
 * @throws UserError when the folder can't be read or has nothing to load.
 */
export async function readFolder(directory: string): Promise<FolderContent> {
  const root = await realpath(directory).catch((error: NodeJS.ErrnoException) => {
    throw new UserError(`${directory} can't be read (${error.code}); give a folder with --from DIR.`);
  });
  const files = await filesBelow(root);
  const known = new Set(files);
  const entries: Entry[] = [];
  const failures: Failure[] = [];
  const named = new Set<string>();
  for (const file of files.filter((path) => !path.includes(sep) && CAPTIONS.includes(ending(path)))) {
    let number = 0;
    for await (const line of createInterface({ input: createReadStream(join(root, file)) })) {
      number += 1;
      if (line.trim() === "") continue;
      const label = `${file}:${number}`;
      try {
        const entry = captionEntry(root, label, line, known);
        if (entry.imageFile !== undefined) named.add(entry.imageFile);
        entries.push(entry);
      } catch (error) {
        if (!(error instanceof EntryError)) throw error;
        failures.push({ label, reason: error.message });
      }
    }
  }
  for (const file of files) {
    const imageFile = join(root, file);
    if (PICTURE_TYPES[ending(file)] === undefined || named.has(imageFile)) continue;
    entries.push({ label: file, text: textOfName(file), imageFile, metadata: { file: posix(file) } });
  }
  if (entries.length === 0 && failures.length === 0) {
    throw new UserError(
      `${directory} holds no picture (${Object.keys(PICTURE_TYPES).join(", ")}) and no ${CAPTIONS.map((one) => `*${one}`).join(" or ")} at its top.`,
    );
  }
  return { entries, failures };
}

/** `holiday/black-cat_01.jpg` as `black cat 01`. */
export function textOfName(file: string): string {
  const stem = basename(file, extname(file));
  return stem.replaceAll(/[\s._-]+/g, " ").trim() || stem;
}

function captionEntry(root: string, label: string, line: string, files: ReadonlySet<string>): Entry {
  const { file, metadata = {}, ...given } = parseLine(line);
  if (file === undefined) return { label, ...given, metadata };
  const path = relative(root, resolve(root, file));
  // Captions may come from another author: no line names a file outside of the folder, not even by a link.
  if (!files.has(path)) throw new EntryError(`file: ${file} is not a regular file of the folder`);
  return {
    label: posix(path),
    text: textOfName(file),
    ...given,
    imageFile: join(root, path),
    metadata: { file: posix(path), ...metadata },
  };
}

function parseLine(line: string): z.infer<typeof captionSchema> {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (error) {
    throw new EntryError(`it is not JSON: ${(error as Error).message}`);
  }
  const parsed = captionSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map((issue) => {
    if (issue.code === "unrecognized_keys")
      return `there is no key ${issue.keys.join(", ")}; a line has file, text, id and metadata`;
    return issue.path.length === 0 ? issue.message : `${issue.path.join(".")}: ${issue.message}`;
  });
  throw new EntryError(problems.join("; "));
}

/** Regular files, relative, sorted; without hidden files and links. */
async function filesBelow(root: string): Promise<string[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .filter((path) => !path.split(sep).some((part) => part.startsWith(".")))
    .toSorted();
}

function ending(file: string): string {
  return extname(file).toLowerCase();
}

function posix(path: string): string {
  return path.split(sep).join("/");
}
