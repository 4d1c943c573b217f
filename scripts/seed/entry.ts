/** What is loaded: entries as a folder lists them, and documents as the gateway takes them. */
import { createHash } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { basename, extname } from "node:path";

/** A document to be: nothing of its picture is read yet. Text, picture, or both. */
export interface Entry {
  /** What a person calls it: a file, or a place in one. */
  readonly label: string;
  /** Absent: it comes from the content. */
  readonly id?: string;
  readonly text?: string;
  /** Absolute path. */
  readonly imageFile?: string;
  readonly metadata: Readonly<Record<string, unknown>>;
}

export interface Picture {
  /** Name without folders. */
  readonly name: string;
  readonly contentType: string;
  readonly bytes: Buffer;
}

/** A document of `POST /v1/documents`. */
export interface PreparedDocument {
  readonly label: string;
  readonly id: string;
  readonly text?: string;
  readonly picture?: Picture;
  readonly metadata: Readonly<Record<string, unknown>>;
}

/** What the gateway decodes. Media type by the end of a name, in lower case; the gateway looks at the content. */
export const PICTURE_TYPES: Readonly<Record<string, string>> = {
  ".jpeg": "image/jpeg",
  ".jpg": "image/jpeg",
  ".png": "image/png",
  ".webp": "image/webp",
};

/** The largest that any gateway can be configured to take. */
const MAX_PICTURE_BYTES = 2 ** 28;

/** An entry can't be sent: one sentence without the entry's name. */
export class EntryError extends Error {
  override readonly name = "EntryError";
}

/**
 * Reads an entry's picture and gives it an id.
 * @throws EntryError when its picture can't be read, is empty, or is larger than any gateway takes.
 */
export async function prepare(entry: Entry): Promise<PreparedDocument> {
  const { label, text, imageFile, metadata } = entry;
  const picture = imageFile === undefined ? undefined : await readPicture(imageFile);
  return {
    label,
    id: entry.id ?? derivedId(text, picture),
    ...(text === undefined ? {} : { text }),
    ...(picture === undefined ? {} : { picture }),
    metadata,
  };
}

/**
 * The same content has the same id in every run, so that a document is loaded once: of a picture by its bytes, with its
 * name before them for people; a caption may change. Of a text alone by the text.
 */
export function derivedId(text: string | undefined, picture: Picture | undefined): string {
  const hash = createHash("sha256")
    .update(picture?.bytes ?? text ?? "")
    .digest("hex")
    .slice(0, 32);
  if (picture === undefined) return `text-${hash}`;
  const stem = basename(picture.name, extname(picture.name));
  const slug = stem
    .normalize("NFKD")
    .replaceAll(/\p{M}/gu, "")
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-|-$/g, "")
    .slice(0, 40);
  return slug === "" ? hash : `${slug}-${hash}`;
}

async function readPicture(file: string): Promise<Picture> {
  const name = basename(file);
  const contentType = PICTURE_TYPES[extname(file).toLowerCase()];
  if (contentType === undefined) {
    const known = Object.keys(PICTURE_TYPES).join(", ");
    throw new EntryError(`its name ends with none of ${known}; convert it first`);
  }
  try {
    const { size } = await stat(file);
    if (size === 0) throw new EntryError("the file is empty");
    if (size > MAX_PICTURE_BYTES)
      throw new EntryError(
        `the file has ${size} bytes, more than the ${MAX_PICTURE_BYTES} that a gateway can take; scale it down`,
      );
    return { name, contentType, bytes: await readFile(file) };
  } catch (error) {
    if (error instanceof EntryError) throw error;
    throw new EntryError(`the file can't be read (${(error as NodeJS.ErrnoException).code})`);
  }
}
