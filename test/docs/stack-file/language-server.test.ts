/** docs/stack-file.schema.json as an editor uses it: through yaml-language-server, over its standard input and output. */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { projectRoot } from "../../../scripts/program/stack-file.ts";

const SERVER = "node_modules/yaml-language-server/bin/yaml-language-server";

const SETTINGS = {
  yaml: { validate: true, hover: true, completion: true, schemaStore: { enable: false } },
};

interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly params?: unknown;
  readonly result?: unknown;
}

interface Diagnostic {
  readonly message: string;
  readonly range: { readonly start: { readonly line: number; readonly character: number } };
}

/** Client of an editor: https://microsoft.github.io/language-server-protocol/specifications/lsp/3.17/specification/ */
class Editor {
  readonly #server: ChildProcessWithoutNullStreams;
  readonly #answers = new Map<number, (result: unknown) => void>();
  readonly #diagnostics = new Map<string, (found: readonly Diagnostic[]) => void>();
  #received = Buffer.alloc(0);
  #count = 0;

  constructor() {
    this.#server = spawn(process.execPath, [SERVER, "--stdio"], { cwd: projectRoot });
    this.#server.stdout.on("data", (bytes: Buffer) => {
      this.#received = Buffer.concat([this.#received, bytes]);
      for (let message = this.#next(); message !== undefined; message = this.#next()) this.#take(message);
    });
  }

  async start(): Promise<void> {
    const capabilities = { workspace: { configuration: true }, textDocument: { hover: {} } };
    await this.request("initialize", { processId: process.pid, rootUri: null, capabilities });
    this.#send({ method: "initialized", params: {} });
    this.#send({ method: "workspace/didChangeConfiguration", params: { settings: SETTINGS } });
  }

  async stop(): Promise<void> {
    await this.request("shutdown", undefined);
    this.#send({ method: "exit" });
    await once(this.#server, "exit");
  }

  request(method: string, params: unknown): Promise<unknown> {
    this.#count += 1;
    const id = this.#count;
    this.#send({ id, method, params });
    return new Promise((resolve) => this.#answers.set(id, resolve));
  }

  /** Opens a file, which need not exist. @returns Its diagnostics. */
  open(uri: string, text: string): Promise<readonly Diagnostic[]> {
    const found = new Promise<readonly Diagnostic[]>((resolve) => this.#diagnostics.set(uri, resolve));
    const textDocument = { uri, languageId: "yaml", version: 1, text };
    this.#send({ method: "textDocument/didOpen", params: { textDocument } });
    return found;
  }

  #send(message: Message): void {
    const content = JSON.stringify({ jsonrpc: "2.0", ...message });
    this.#server.stdin.write(`Content-Length: ${Buffer.byteLength(content)}\r\n\r\n${content}`);
  }

  #next(): Message | undefined {
    const end = this.#received.indexOf("\r\n\r\n");
    const length = Number(
      /Content-Length: (\d+)/.exec(this.#received.toString("latin1", 0, Math.max(0, end)))?.[1],
    );
    const from = end + 4;
    if (end === -1 || this.#received.length < from + length) return undefined;
    const content = this.#received.toString("utf8", from, from + length);
    this.#received = this.#received.subarray(from + length);
    return JSON.parse(content) as Message;
  }

  #take({ id, method, params, result }: Message): void {
    if (method === "textDocument/publishDiagnostics") {
      const { uri, diagnostics } = params as { uri: string; diagnostics: readonly Diagnostic[] };
      this.#diagnostics.get(uri)?.(diagnostics);
    } else if (method !== undefined && id !== undefined) {
      const { items = [] } = (params ?? {}) as { items?: readonly { section: "yaml" }[] };
      this.#send({ id, result: items.map(({ section }) => SETTINGS[section] ?? null) });
    } else if (id !== undefined) this.#answers.get(id)?.(result);
  }
}

const editor = new Editor();

beforeAll(() => editor.start());

afterAll(() => editor.stop());

const stackFiles = [".", "examples"].flatMap((folder) =>
  readdirSync(join(projectRoot, folder))
    .filter((file) => /^Pulumi\..+\.yaml$/.test(file) || (folder === "examples" && file.endsWith(".yaml")))
    .map((file) => join(folder, file)),
);

const uriOf = (file: string) => String(pathToFileURL(join(projectRoot, file)));

const MARK = "|";

let written = 0;

/** A stack file with `|` at the position of the request. */
async function openAt(text: string) {
  const lines = text.slice(0, text.indexOf(MARK)).split("\n");
  written += 1;
  const uri = uriOf(`Pulumi.editor-${written}.yaml`);
  const whole = `# yaml-language-server: $schema=docs/stack-file.schema.json\n${text.replace(MARK, "")}`;
  const diagnostics = await editor.open(uri, whole);
  const position = { line: lines.length, character: lines.at(-1)?.length ?? 0 };
  return { diagnostics, at: { textDocument: { uri }, position } };
}

async function completions(text: string): Promise<readonly string[]> {
  const { at } = await openAt(text);
  const { items } = (await editor.request("textDocument/completion", at)) as {
    items: readonly { label: string }[];
  };
  return items.map(({ label }) => label);
}

const LOCAL = `config:
  engine-room:platform: local
  engine-room:models:
    - name: smollm2
      model: smollm2-135m-instruct
`;

test("there are more than ten stack files and examples", () => expect(stackFiles.length).toBeGreaterThan(10));

test.each(stackFiles)("an editor finds nothing wrong with %s", async (file) => {
  const text = readFileSync(join(projectRoot, file), "utf8");
  const [first] = text.split("\n");
  expect(first).toBe(
    `# yaml-language-server: $schema=${file.includes("/") ? ".." : "."}/docs/stack-file.schema.json`,
  );
  expect(await editor.open(uriOf(file), text)).toEqual([]);
});

test("an editor suggests the platforms", async () => {
  const offered = await completions("config:\n  engine-room:platform: |\n");
  expect(offered.toSorted()).toEqual(["aws", "docker", "kubernetes", "local"]);
});

test("an editor suggests the keys of the platform", async () => {
  const offered = await completions(`${LOCAL}  |\n`);
  expect(offered).toEqual(expect.arrayContaining(["engine-room:gateway", "engine-room:pythonVersion"]));
  expect(offered).not.toContain("engine-room:account");
});

test("an editor suggests keys at any depth", async () => {
  expect(await completions(`${LOCAL}      |\n`)).toEqual(
    expect.arrayContaining(["parallelRequests", "contextTokens"]),
  );
});

test("an editor suggests values and names of the catalogue", async () => {
  expect(await completions(`${LOCAL}  engine-room:databases: |\n`)).toEqual(
    expect.arrayContaining(["mock", "container", "external"]),
  );
  const docker =
    "config:\n  engine-room:platform: docker\n  engine-room:models:\n    - name: a\n      model: |\n";
  expect(await completions(docker)).toEqual(expect.arrayContaining(["llava-1.5-7b", "gpt2-medium"]));
});

test("an editor shows the sentence of a key", async () => {
  const { at } = await openAt(`${LOCAL}      parallelReq|uests: 2\n`);
  const { contents } = (await editor.request("textDocument/hover", at)) as { contents: { value: string } };
  expect(contents.value).toContain("Requests generated at the same time");
});

test.each([
  ["a misspelt key", `${LOCAL}  engine-room:modles: []|\n`, "engine-room:modles"],
  ["a misspelt key inside", `${LOCAL}      contextToken: 1024|\n`, "contextToken"],
  ["a key of another platform", `${LOCAL}  engine-room:account: "111122223333"|\n`, "engine-room:account"],
  ["a key with a dot", `${LOCAL}  engine-room:gateway.port: 8123|\n`, "engine-room:gateway.port"],
  ["an unknown value", `${LOCAL}  engine-room:databases: mok|\n`, "Valid values"],
  ["a key without a namespace", `${LOCAL}  platform: local|\n`, "platform"],
])("an editor marks %s where it is", async (_title, text, words) => {
  const { diagnostics, at } = await openAt(text);
  expect(diagnostics).toHaveLength(1);
  expect(diagnostics[0]?.message).toContain(words);
  expect(diagnostics[0]?.range.start.line).toBe(at.position.line);
});

test("an editor accepts the keys that the Pulumi CLI and its users write", async () => {
  const { diagnostics } = await openAt(`secretsprovider: passphrase
encryptionsalt: v1:abc=:v1:def:ghi==
environment:
  - team/prod
config:
  aws:region: us-east-1
  pulumi:tags:
    team: models
  engine-room:platform: local
  engine-room:models: '[{"name":"smollm2","model":"smollm2-135m-instruct"}]'
  engine-room:gateway:
    apiKeys:
      - name: alice
        sha256:
          secure: v1:bm9uY2U=:Y2lwaGVydGV4dA==|
`);
  expect(diagnostics).toEqual([]);
});
