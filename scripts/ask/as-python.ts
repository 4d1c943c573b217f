/** A prepared request as a Python program that needs nothing but Python. */
import { bodyParts } from "./as-curl.ts";
import type { PreparedRequest } from "./prepared-request.ts";
import type { AskedImage } from "./question.ts";

/** The key is read from ENGINE_ROOM_API_KEY when it runs; pictures are read from their files. */
export function asPython(request: PreparedRequest, images: readonly AskedImage[]): string {
  const { url, headers, body, needsKey, stream } = request;
  const fileCount = images.filter(({ kind }) => kind === "file").length;
  const modules = [
    ...(fileCount > 0 ? ["base64"] : []),
    "json",
    ...(needsKey ? ["os"] : []),
    "urllib.request",
  ];
  const head = Object.entries(headers).map(([name, value]) => `${pythonText(name)}: ${pythonText(value)}`);
  const key = needsKey ? ['"authorization": "Bearer " + os.environ["ENGINE_ROOM_API_KEY"]'] : [];
  return [
    `import ${modules.join(", ")}`,
    "",
    ...(fileCount > 0 ? pythonImageReader : []),
    `BODY = ${pythonValue(JSON.parse(body), images)}`,
    `HEADERS = {${[...head, ...key].join(", ")}}`,
    `request = urllib.request.Request(${pythonText(url)}, json.dumps(BODY).encode(), HEADERS)`,
    "with urllib.request.urlopen(request, timeout=600) as answer:",
    ...(stream ? streamLines(request) : [`    print(json.load(answer)${subscripts(request.textPath)})`]),
    "",
  ].join("\n");
}

/** A function `image(path)` that gives base64, and the empty lines that Python's prompt wants after it. */
export const pythonImageReader: readonly string[] = [
  "def image(path):",
  '    with open(path, "rb") as file:',
  "        return base64.b64encode(file.read()).decode()",
  "",
];

/** Statements that print what is new in `text`, where all text so far is sent each time. */
export function pythonPrint(streamedText: PreparedRequest["streamedText"]): readonly string[] {
  return streamedText === "delta"
    ? ['print(text, end="", flush=True)']
    : // Half a character comes as U+FFFD, and whole with the next event.
      ['text = text.rstrip("\\ufffd")', 'print(text[len(shown):], end="", flush=True)', "shown = text"];
}

/** A JSON value as Python writes it, with calls of `image` in place of the pictures. */
export function pythonValue(value: unknown, images: readonly AskedImage[]): string {
  if (typeof value === "string") return textWithImages(value, images);
  if (typeof value === "boolean") return value ? "True" : "False";
  if (value === null) return "None";
  if (Array.isArray(value)) return `[${value.map((item) => pythonValue(item, images)).join(", ")}]`;
  if (typeof value !== "object") return String(value);
  const entries = Object.entries(value).map(
    ([name, item]) => `${pythonText(name)}: ${pythonValue(item, images)}`,
  );
  return `{${entries.join(", ")}}`;
}

/** JSON's escapes are Python's too. */
export function pythonText(text: string): string {
  return JSON.stringify(text);
}

function textWithImages(text: string, images: readonly AskedImage[]): string {
  const parts = bodyParts(text, images).filter((part) => part !== "");
  if (parts.length === 0) return '""';
  return parts
    .map((part) => (typeof part === "string" ? pythonText(part) : `image(${pythonText(part.path)})`))
    .join(" + ");
}

function streamLines({ streamedText, textPath }: PreparedRequest): string[] {
  const [first, second] = textPath;
  const read =
    second === undefined
      ? [`text = event[${pythonKey(first)}]`]
      : // The last event of the gateway holds the counts and no choice.
        ['choices = event["choices"]', 'text = choices[0]["delta"].get("content") or "" if choices else ""'];
  return [
    ...(streamedText === "cumulative" ? ['    shown = ""'] : []),
    "    for line in answer:",
    '        if line.startswith(b"data: ") and line.strip() != b"data: [DONE]":',
    ...[
      "event = json.loads(line[6:])",
      'if "error" in event:',
      '    raise SystemExit(event["error"])',
      ...read,
      ...pythonPrint(streamedText),
    ].map((line) => `            ${line}`),
    "    print()",
  ];
}

function subscripts(path: PreparedRequest["textPath"]): string {
  return path.map((key) => `[${pythonKey(key)}]`).join("");
}

function pythonKey(key: string | number | undefined): string {
  return typeof key === "number" ? String(key) : pythonText(key ?? "");
}
