/** A prepared request as a line for bash or zsh. */
import { shellLine } from "../../infra/plan/engine/shell-line.ts";
import type { PreparedRequest } from "./prepared-request.ts";
import type { AskedImage } from "./question.ts";

/**
 * The key is read from ENGINE_ROOM_API_KEY when the line runs, and reaches curl through a file descriptor: it stands neither
 * here nor in the list of processes. Pictures are read from their files.
 */
export function asCurl(request: PreparedRequest, images: readonly AskedImage[]): string {
  const { url, headers, body, needsKey, stream } = request;
  const flags = Object.entries(headers).flatMap(([name, value]) => ["--header", `${name}: ${value}`]);
  const curl = shellLine(["curl", stream ? "-sSN" : "-sS", url, ...flags]);
  const key = needsKey ? ` \\\n  --header @<(printf 'authorization: Bearer %s' "$ENGINE_ROOM_API_KEY")` : "";
  const parts = bodyParts(body, images);
  if (parts.length === 1) return `${curl}${key} \\\n  ${shellLine(["--data", body])}\n`;
  // Base64 of a picture is longer than an argument of a command may be.
  const lines = parts.map((part) =>
    typeof part === "string"
      ? `printf %s ${shellLine([part])}`
      : `base64 < ${shellLine([part.path])} | tr -d '\\n'`,
  );
  return `{ ${lines.join("\n  ")}\n} | ${curl}${key} \\\n  --data-binary @-\n`;
}

/** Text around the pictures, and the files of these. */
export function bodyParts(
  text: string,
  images: readonly AskedImage[],
): (string | Extract<AskedImage, { kind: "file" }>)[] {
  const files = images.filter((image) => image.kind === "file");
  return files.reduce<(string | (typeof files)[number])[]>(
    (parts, file) =>
      parts.flatMap((part) =>
        typeof part === "string"
          ? part.split(file.base64).flatMap((piece, index) => (index === 0 ? [piece] : [file, piece]))
          : [part],
      ),
    [text],
  );
}
