/** The page's own modules that need no browser: types, server-sent events, curl commands. */
import { execFileSync, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { times } from "../../harness/thorough.ts";

const PUBLIC = new URL("../../../containers/services/gateway/public/", import.meta.url);

interface Call {
  readonly path: string;
  readonly fields?: Readonly<Record<string, unknown>>;
  readonly image?: { readonly name: string };
  readonly saveAs?: string;
}
interface Module {
  curlCommand(call: Call): string;
  readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<{ event: string; data: string }, void, void>;
}

const { curlCommand, readEvents } = (await import(new URL("page/api.js", PUBLIC).href)) as Module;

test("the page's types are correct", () => {
  const compiler = fileURLToPath(new URL("../../../node_modules/typescript-7/bin/tsc", import.meta.url));
  const { status, stdout } = spawnSync(process.execPath, [compiler, "-p", fileURLToPath(PUBLIC)], {
    encoding: "utf8",
  });
  expect({ status, stdout }).toEqual({ status: 0, stdout: "" });
});

describe("curl commands", () => {
  const image = { name: "cat.jpg" };

  /** The command of a page at an address, in a tab that has the key. */
  function commandOf(
    call: Omit<Call, "path"> & { path?: string },
    base = "http://127.0.0.1:8080/",
    key?: string,
  ) {
    vi.stubGlobal("document", { baseURI: base });
    vi.stubGlobal("sessionStorage", { getItem: () => key ?? null });
    return curlCommand({ path: "v1/match", ...call });
  }

  /** Arguments that a POSIX shell gives curl for the command. */
  function wordsOf(command: string, environment: Record<string, string> = {}): string[] {
    const script = `curl() { printf '%s\\0' "$@"; }\n${command}`;
    const options = { encoding: "utf8", env: { PATH: process.env.PATH, ...environment } } as const;
    return execFileSync("sh", ["-c", script], options).split("\0").slice(0, -1);
  }

  test("the curl command without an image sends JSON", () => {
    expect(commandOf({ fields: { text: "a cat", topK: 5 } })).toBe(
      `curl http://127.0.0.1:8080/v1/match \\
  --header 'content-type: application/json' \\
  --data '{"text":"a cat","topK":5}'`,
    );
  });

  test("the curl command with an image sends a form with the file", () => {
    expect(commandOf({ fields: { question: "What?", stream: true }, image })).toBe(
      `curl http://127.0.0.1:8080/v1/match \\
  --no-buffer \\
  --form-string 'question=What?' \\
  --form-string stream=true \\
  --form image=@cat.jpg`,
    );
  });

  test("the curl command for a picture saves it to a named file", () => {
    const picture = { path: "v1/documents/a%2Fb/image", saveAs: "a b.jpg" };
    const command = commandOf(picture, "http://127.0.0.1:8080/", "sk-1");
    expect(command).toBe(
      `curl http://127.0.0.1:8080/v1/documents/a%2Fb/image \\
  --header "authorization: Bearer $ENGINE_ROOM_API_KEY" \\
  --output 'a b.jpg'`,
    );
  });

  test("the curl command takes the key from the reader's shell", () => {
    const words = wordsOf(commandOf({ fields: {} }, "http://127.0.0.1:8080/", "sk-1"), {
      ENGINE_ROOM_API_KEY: "sk-2",
    });
    expect(words).toContain("authorization: Bearer sk-2");
  });

  test("the curl command goes to the page's own address, behind a path as well", () => {
    const words = wordsOf(commandOf({ fields: {} }, "https://host/engine room/"));
    expect(words[0]).toBe("https://host/engine%20room/v1/match");
  });

  test("the curl command sends exactly the page's request, with any content", () => {
    const anyText = fc.oneof(
      fc.string({ unit: "grapheme" }),
      fc.constantFrom(
        "'",
        "'; rm -rf / #",
        "$(id)",
        "`id`",
        "!!",
        "\\",
        "a\nb",
        "@/etc/passwd",
        "<x",
        "-",
        '"',
      ),
    );
    const withoutNul = anyText.map((text) => text.replaceAll("\0", ""));
    fc.assert(
      fc.property(withoutNul, (text) => {
        const json = wordsOf(commandOf({ fields: { text } }));
        expect(JSON.parse(json.at(-1) ?? "")).toEqual({ text });
        const form = wordsOf(commandOf({ fields: { text }, image }));
        expect(form.slice(1)).toEqual(["--form-string", `text=${text}`, "--form", "image=@cat.jpg"]);
      }),
      { numRuns: times(20, 200) },
    );
  });

  test.each([
    ["my cat.jpg", "image=@my cat.jpg"],
    ["a;type=text/html.jpg", 'image=@"a;type=text/html.jpg"'],
    ['say "cat", \\o.jpg', 'image=@"say \\"cat\\", \\\\o.jpg"'],
    ["-o.jpg", "image=@-o.jpg"],
    ["it's.jpg", "image=@it's.jpg"],
  ])("the curl command names the file %s as curl reads it", (name, word) => {
    const words = wordsOf(commandOf({ fields: {}, image: { name } }));
    expect(words.at(-1)).toBe(word);
  });
});

describe("page events", () => {
  async function eventsOf(...chunks: Uint8Array[]): Promise<{ event: string; data: string }[]> {
    const events = [];
    for await (const event of readEvents(ReadableStream.from(chunks) as ReadableStream<Uint8Array>))
      events.push(event);
    return events;
  }
  const bytes = (text: string) => new TextEncoder().encode(text);

  test.each([
    ["event: delta\ndata: a\n\n", [{ event: "delta", data: "a" }]],
    [
      "data: a\n\ndata: b\n\n",
      [
        { event: "message", data: "a" },
        { event: "message", data: "b" },
      ],
    ],
    ["data: a\ndata: b\n\n", [{ event: "message", data: "a\nb" }]],
    ["event:delta\r\ndata:a\r\n\r\n", [{ event: "delta", data: "a" }]],
    ["event: delta\rdata: a\r\rx", [{ event: "delta", data: "a" }]],
    [": comment\nid: 1\nretry: 5\ndata\n\n", [{ event: "message", data: "" }]],
    ["data:  a: b\n\n", [{ event: "message", data: " a: b" }]],
    ["event: delta\n\ndata: a\n\n", [{ event: "message", data: "a" }]],
    ["data: not ended\n", []],
    ["\uFEFFdata: a\n\n", [{ event: "message", data: "a" }]],
  ])("the page reads the server-sent events of %j", async (text, expected) => {
    expect(await eventsOf(bytes(text))).toEqual(expected);
  });

  test("the page reads the same events with any chunks of the stream", async () => {
    const text = 'event: sources\r\ndata: {"a":"häß 🐈"}\r\n\r\nevent: delta\ndata: 日本\ndata: x\n\n';
    const whole = await eventsOf(bytes(text));
    expect(whole).toHaveLength(2);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat({ max: bytes(text).length }), { maxLength: 12 }), async (places) => {
        const cuts = [0, ...places.sort((a, b) => a - b), bytes(text).length];
        const chunks = cuts.slice(1).map((end, index) => bytes(text).subarray(cuts[index], end));
        expect(await eventsOf(...chunks)).toEqual(whole);
      }),
    );
  });

  test("the page closes the connection when it leaves a stream early", async () => {
    let isCancelled = false;
    const endless = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(bytes("data: a\n\n")),
      cancel: () => {
        isCancelled = true;
      },
    });
    for await (const { data } of readEvents(endless)) {
      expect(data).toBe("a");
      break;
    }
    expect(isCancelled).toBe(true);
  });
});
