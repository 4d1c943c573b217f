/** A prepared request as a program to be pasted: curl for bash and zsh, Python without packages, Python with Triton's gRPC client. */
import { shellLine } from "../../infra/plan/engine/shell-line.ts";
import { UsageError } from "../errors.ts";
import type { PreparedRequest } from "./prepared-request.ts";
import type { AskedImage } from "./question.ts";

/** MAX_ARG_STRLEN of Linux is 128 KiB; frames of a video are longer. */
const LONGEST_ARGUMENT_CHARACTERS = 2 ** 15;

/**
 * The key is read from ENGINE_ROOM_API_KEY when the line runs, and reaches curl through a file descriptor: neither the line nor the list of
 * processes has it. Pictures are read from their files.
 */
export function asCurl(request: PreparedRequest, images: readonly AskedImage[]): string {
  const { url, headers, body, needsKey, stream } = request;
  const flags = Object.entries(headers).flatMap(([name, value]) => ["--header", `${name}: ${value}`]);
  const curl = shellLine(["curl", stream ? "-sSN" : "-sS", url, ...flags]);
  const key = needsKey ? ` \\\n  --header @<(printf 'authorization: Bearer %s' "$ENGINE_ROOM_API_KEY")` : "";
  const parts = bodyParts(body, images);
  if (parts.length === 1 && body.length < LONGEST_ARGUMENT_CHARACTERS)
    return `${curl}${key} \\\n  ${shellLine(["--data", body])}\n`;
  // Base64 of a picture is longer than an argument of a command may be; printf is the shell's own.
  const lines = parts.map((part) =>
    typeof part === "string"
      ? `printf %s ${shellLine([part])}`
      : `base64 < ${shellLine([part.path])} | tr -d '\\n'`,
  );
  return `{ ${lines.join("\n  ")}\n} | ${curl}${key} \\\n  --data-binary @-\n`;
}

type FileImage = Extract<AskedImage, { kind: "file" }>;

/** Text around the pictures, and their files. */
function bodyParts(text: string, images: readonly AskedImage[]): readonly (string | FileImage)[] {
  let parts: (string | FileImage)[] = [text];
  for (const file of images.filter((image) => image.kind === "file"))
    parts = parts.flatMap((part) =>
      typeof part === "string"
        ? part.split(file.base64).flatMap((piece, index) => (index === 0 ? [piece] : [file, piece]))
        : [part],
    );
  return parts;
}

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

/** A function `image(path)` that returns base64, and the empty lines that Python's prompt requires after it. */
const pythonImageReader: readonly string[] = [
  "def image(path):",
  '    with open(path, "rb") as file:',
  "        return base64.b64encode(file.read()).decode()",
  "",
];

/** Statements that print new text of `text`, if each event has all text so far. */
function pythonPrint(streamedText: PreparedRequest["streamedText"]): readonly string[] {
  return streamedText === "delta"
    ? ['print(text, end="", flush=True)']
    : // Half a character comes as U+FFFD, and whole with the next event.
      ['text = text.rstrip("\\ufffd")', 'print(text[len(shown):], end="", flush=True)', "shown = text"];
}

/** JSON's escapes are Python's too. */
const pythonText = (text: string) => JSON.stringify(text);

const subscripts = (path: PreparedRequest["textPath"]) =>
  path.map((key) => `[${JSON.stringify(key)}]`).join("");

/** A JSON value as Python writes it, with calls of `image` in place of the pictures. */
function pythonValue(value: unknown, images: readonly AskedImage[]): string {
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

function textWithImages(text: string, images: readonly AskedImage[]): string {
  const parts = bodyParts(text, images).filter((part) => part !== "");
  if (parts.length === 0) return '""';
  return parts
    .map((part) => (typeof part === "string" ? pythonText(part) : `image(${pythonText(part.path)})`))
    .join(" + ");
}

function streamLines({ streamedText, textPath }: PreparedRequest): string[] {
  const read =
    textPath.length === 1
      ? [`text = event${subscripts(textPath)}`]
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

/**
 * It asks the server for the datatypes and shapes of the model's inputs, as Triton's generate extension does, and leaves out other fields.
 * A stream carries a single answer as well as many, and only a stream reaches a decoupled model.
 *
 * @throws UsageError for a request to the gateway.
 */
export function asGrpc(request: PreparedRequest, images: readonly AskedImage[]): string {
  const { body, grpc, streamedText, stream, textPath } = request;
  if (grpc === null)
    throw new UsageError("The gateway supports only HTTP; --as grpc is for --endpoint triton.");
  const { address, tritonModel } = grpc;
  const hasFiles = images.some(({ kind }) => kind === "file");
  const isCumulative = stream && streamedText === "cumulative";
  return [
    '# pip install "tritonclient[grpc]"',
    `import ${hasFiles ? "base64, " : ""}queue`,
    "import numpy as np",
    "import tritonclient.grpc as triton",
    "from tritonclient.utils import triton_to_np_dtype",
    "",
    ...(hasFiles ? pythonImageReader : []),
    `FIELDS = ${pythonValue(JSON.parse(body), images)}`,
    `client = triton.InferenceServerClient(${pythonText(address)})`,
    `described = client.get_model_metadata(${pythonText(tritonModel)})`,
    "inputs = []",
    "for one in described.inputs:",
    "    if one.name in FIELDS:",
    "        value = FIELDS[one.name]",
    "        values = value if isinstance(value, list) else [value]",
    "        values = [item.encode() if isinstance(item, str) else item for item in values]",
    "        shape = [1] * (len(one.shape) - 1) + [len(values)]",
    "        tensor = triton.InferInput(one.name, shape, one.datatype)",
    "        data = np.array(values, dtype=triton_to_np_dtype(one.datatype)).reshape(shape)",
    "        tensor.set_data_from_numpy(data)",
    "        inputs.append(tensor)",
    "",
    "answers = queue.Queue()",
    "client.start_stream(lambda result, error: answers.put((result, error)))",
    `client.async_stream_infer(${pythonText(tritonModel)}, inputs, enable_empty_final_response=True)`,
    ...(isCumulative ? ['shown = ""'] : []),
    "while True:",
    "    result, error = answers.get(timeout=600)",
    "    if error is not None:",
    "        raise SystemExit(str(error))",
    `    tensor = result.as_numpy(${pythonText(String(textPath[0]))})`,
    "    if tensor is not None and tensor.size > 0:",
    "        text = tensor.flatten()[0].decode()",
    ...pythonPrint(isCumulative ? "cumulative" : "delta").map((line) => `        ${line}`),
    '    if result.get_response().parameters["triton_final_response"].bool_param:',
    "        break",
    "",
    "print()",
    "client.stop_stream()",
    "",
  ].join("\n");
}
