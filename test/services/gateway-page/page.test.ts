/** The page, by mouse and by keyboard, on an API that each test controls. */

import { EventEmitter, once } from "node:events";
import { describe, expect, test } from "vitest";
import { sampleManifest } from "../../../scripts/seed/samples.ts";
import { needs } from "../../harness/requirements.ts";
import { AT_NIGHT } from "../../harness/thorough.ts";
import { keepScreenshot, NO_BROWSER } from "./browser.ts";
import { END, type FakeSample, READY, Refusal, SOURCES } from "./fake-gateway.ts";
import { pageFixture, png } from "./page-fixture.ts";

const never = () => new Promise(() => undefined);

function openable(): { readonly opened: Promise<void>; open(): void } {
  const events = new EventEmitter();
  return { opened: once(events, "open").then(() => undefined), open: () => events.emit("open") };
}

describe("page", needs(NO_BROWSER), () => {
  const the = pageFixture();

  test("a question is answered piece by piece, with its sources and the matches beside it", async () => {
    const gate = openable();
    the.gateway.scenario.answer = async function* () {
      yield ["sources", SOURCES];
      yield ["delta", { text: "The animal is " }];
      await gate.opened;
      yield ["delta", { text: "a tabby cat." }];
      yield ["done", END];
    };
    await the.open();
    await the.ask("Which animal is it?");

    await the.page.getByText("The animal is", { exact: true }).waitFor();
    await the.answer().getByText("smollm2 is writing…").waitFor();
    expect(await the.answer().getByRole("listitem").count()).toBe(2);
    await the.page.getByRole("button", { name: "Stop" }).waitFor();
    gate.open();
    await the.answer().getByText("The animal is a tabby cat.").waitFor();
    await the
      .answer()
      .getByText(/^smollm2 · 12 tokens · first words after .+ · done after /)
      .waitFor();
    await the.page.getByRole("button", { name: "Stop" }).waitFor({ state: "hidden" });

    expect(await the.matches().count()).toBe(3);
    const first = the.matches().first();
    await first.getByText("A tabby cat sits on a windowsill").waitFor();
    await first.getByRole("img", { name: "Picture of cat" }).waitFor();
    expect(await the.page.locator("#matches .score").allTextContents()).toEqual([
      "Score 0.712",
      "Score 0.322",
      "Score 0.301",
    ]);
    expect(await the.page.locator(".parts").count()).toBe(0);
    await the.page.getByText("ordered by cosine similarity of the texts").waitFor();
    expect(the.gateway.asked.map(({ path, fields }) => ({ path, fields }))).toEqual([
      { path: "/v1/match", fields: { text: "Which animal is it?", topK: 5 } },
      { path: "/v1/answer", fields: { question: "Which animal is it?", topK: 5, stream: true } },
    ]);
  });

  test("a source leads to its match", async () => {
    await the.open();
    await the.ask("cat");
    await the
      .answer()
      .getByRole("link", { name: /^harbour/ })
      .click();
    await the.page.locator(".match:target").getByText("harbour", { exact: true }).waitFor();
    expect(await the.focusedId()).toBe("match-harbour");
  });

  test("Stop ends an answer in the page and in the gateway", async () => {
    the.gateway.scenario.answer = async function* () {
      yield ["sources", SOURCES];
      yield ["delta", { text: "The beginning" }];
      await never();
    };
    await the.open();
    await the.ask("cat");
    await the.page.getByText("The beginning").waitFor();
    await the.page.getByRole("button", { name: "Stop" }).click();
    await the.answer().getByText("Stopped.").waitFor();
    await the.page.getByText("The beginning").waitFor();
    await expect.poll(() => the.gateway.leftAnswers).toBe(1);
    expect(await the.focusedId()).toBe("submit");
  });

  test("a new question replaces the running question, and nothing more of that is shown", async () => {
    the.gateway.scenario.answer = async function* ({ fields }) {
      yield ["sources", SOURCES];
      yield ["delta", { text: `About ${fields.question}. ` }];
      if (fields.question === "first") await never();
      yield ["done", END];
    };
    await the.open();
    await the.ask("first");
    await the.answer().getByText("About first.").waitFor();
    await the.ask("second");
    await the.answer().getByText("About second.").waitFor();
    await the.answer().getByText("done after").waitFor();
    expect(await the.answer().textContent()).not.toContain("first.");
    await expect.poll(() => the.gateway.leftAnswers).toBe(1);
  });

  test("Find only shows matches without an answer", async () => {
    await the.open();
    await the.question().fill("cat");
    await the.page.getByRole("button", { name: "Find only" }).click();
    await the.matches().first().waitFor();
    expect(the.gateway.asked.map(({ path }) => path)).toEqual(["/v1/match"]);
    expect(await the.answer().isVisible()).toBe(false);
  });

  test("Ask without a question asks for one", async () => {
    await the.open();
    await the.page.getByRole("button", { name: "Ask" }).click();
    await the.page.locator("#ask").getByText("Write a question or add an image first.").waitFor();
    expect(await the.focusedId()).toBe("question");
    expect(the.gateway.asked).toEqual([]);
  });

  test("a question can be asked and a source followed only by keyboard, with visible focus", async () => {
    await the.open();
    await the.question().waitFor();
    await the.page.keyboard.type("Which animal is it?");
    await the.page.keyboard.press("Enter");
    await the.answer().getByText("done after").waitFor();
    const visited: string[] = [];
    for (let steps = 0; steps < 40 && !visited.includes("Copy"); steps++) {
      await the.page.keyboard.press("Tab");
      const [name, outline] = await the.page.evaluate<[string, string]>(`(() => {
          const focused = document.activeElement;
          const shown = focused.id === "image-file" ? focused.closest("label") : focused;
          const name = focused.id || focused.firstChild?.textContent || focused.tagName;
          return [name, getComputedStyle(shown).outlineStyle];
        })()`);
      visited.push(name);
      expect(outline, `focus on ${name}`).toBe("solid");
    }
    expect(visited).toEqual([
      "image-file",
      "submit",
      "find-only",
      "Options",
      "Add a document",
      ...visited.slice(5),
    ]);
    expect(visited).toContain("Metadata");
    expect(visited).toContain("Copy");
    await the.page.getByRole("link", { name: "Skip to the question" }).focus();
    await the.page.keyboard.press("Enter");
    expect(await the.focusedId()).toBe("main");
  });

  test("Escape stops an answer", async () => {
    the.gateway.scenario.answer = async function* () {
      yield ["sources", SOURCES];
      await never();
    };
    await the.open();
    await the.ask("cat");
    await the.answer().getByText("smollm2 is reading…").waitFor();
    await the.page.keyboard.press("Escape");
    await the.answer().getByText("Stopped.").waitFor();
  });

  test("Shift+Enter starts a new line", async () => {
    await the.open();
    await the.question().fill("a");
    await the.question().press("Shift+Enter");
    expect(await the.question().inputValue()).toBe("a\n");
    expect(the.gateway.asked).toEqual([]);
  });

  describe("images", needs(AT_NIGHT), () => {
    /** Expression of a DataTransfer that holds the picture as a file. */
    const transferOf = async (name: string, type: string) => {
      const base64 = (await png()).toString("base64");
      return `(() => {
        const bytes = Uint8Array.from(atob(${JSON.stringify(base64)}), (letter) => letter.charCodeAt(0));
        const transfer = new DataTransfer();
        transfer.items.add(new File([bytes], ${JSON.stringify(name)}, { type: ${JSON.stringify(type)} }));
        return transfer;
      })()`;
    };

    async function drop(target: string, name: string, type = "image/png"): Promise<void> {
      const dataTransfer = await the.page.evaluateHandle(await transferOf(name, type));
      await the.page.dispatchEvent(target, "dragenter", { dataTransfer });
      await the.page.dispatchEvent(target, "dragover", { dataTransfer });
      expect(await the.page.locator(".drop[data-over]").count()).toBe(1);
      await the.page.dispatchEvent(target, "drop", { dataTransfer });
      expect(await the.page.locator(".drop[data-over]").count()).toBe(0);
    }

    async function paste(name: string): Promise<void> {
      const transfer = await transferOf(name, "image/png");
      await the.page.evaluate(
        `document.activeElement.dispatchEvent(new ClipboardEvent("paste", { clipboardData: ${transfer}, bubbles: true, cancelable: true }))`,
      );
    }

    test("a dropped image is searched with the text, and both searches and their fusion are explained", async () => {
      await the.open();
      await drop("#image .drop", "my cat.png");
      await the.page.locator("#image img").waitFor();
      await the.page.locator("#image .drop").getByText("my cat.png").waitFor();
      await the.ask("Which animal is it?");
      await the.answer().getByText("done after").waitFor();
      const bytes = (await png()).length;
      expect(the.gateway.asked).toMatchObject([
        { path: "/v1/match", fields: { text: "Which animal is it?", topK: 5 }, imageBytes: bytes },
        {
          path: "/v1/answer",
          fields: { question: "Which animal is it?", stream: true },
          imageBytes: bytes,
        },
      ]);
      await the.page.getByText("the score is the sum of 1 ÷ (1 + rank)").waitFor();
      const second = the.matches().nth(1);
      await second.getByText("Text: rank 3, similarity 0.301, adds 0.250").waitFor();
      await second.getByText("Image: rank 2, similarity 0.402, adds 0.333").waitFor();
      await the.matches().nth(2).getByText("Image: not in this list").waitFor();
      await keepScreenshot(the.page, "answer-light");
    });

    test("an image can be dropped anywhere or pasted", async () => {
      await the.open();
      await drop("h1", "beside.png");
      await the.page.locator("#image .drop").getByText("beside.png").waitFor();
      await paste("pasted.png");
      await the.page.locator("#image .drop").getByText("pasted.png").waitFor();
      await the.page.getByRole("button", { name: "Find only" }).click();
      await the.matches().first().waitFor();
      expect(the.gateway.asked).toMatchObject([{ path: "/v1/match", fields: { topK: 5 } }]);
      expect(the.gateway.asked[0]?.imageBytes).toBeGreaterThan(0);
    });

    test("an image without a question is searched without an answer", async () => {
      await the.open();
      await the.chooseImage("a.png");
      await the.page.getByRole("button", { name: "Ask" }).click();
      await the.matches().first().waitFor();
      expect(the.gateway.asked.map(({ path }) => path)).toEqual(["/v1/match"]);
      await the.page.locator("#ask").getByText("Add a question to get an answer as well.").waitFor();
    });

    test("an image can be removed", async () => {
      await the.open();
      await the.chooseImage("a.png");
      await the.page.getByRole("button", { name: "Remove image" }).click();
      expect(await the.page.locator("#image img").isVisible()).toBe(false);
      expect(await the.focusedId()).toBe("image-file");
      await the.ask("cat");
      await the.matches().first().waitFor();
      expect(the.gateway.asked[0]?.imageBytes).toBeUndefined();
    });

    test("a file that is not an image is refused in a sentence", async () => {
      await the.open();
      await drop("#image .drop", "notes.pdf", "application/pdf");
      await the.page
        .locator("#ask")
        .getByText("Unsupported image format: notes.pdf. Choose a JPEG, PNG or WebP file.")
        .waitFor();
    });
  });

  describe("adding a document", () => {
    const add = async (text: string) => {
      await the.page.getByText("Add a document").click();
      await the.page.getByLabel("Text").fill(text);
      await the.page.getByRole("button", { name: "Add document" }).click();
    };
    const problem = () => the.page.locator("#add-problem");

    test("a text and a picture are added with an id, found, and deleted", async () => {
      await the.open();
      await the.page.getByText("Add a document").click();
      await the.page
        .locator("#add-image-file")
        .setInputFiles({ name: "boat.png", mimeType: "image/png", buffer: await png() });
      await the.page.getByLabel("Id (optional)").fill("boat");
      await the.page.getByLabel("Text").fill("A red boat");
      await the.page.getByRole("button", { name: "Add document" }).press("Enter");
      await the.page.locator("#added").getByText("boat was added. Searches find it now.").waitFor();
      const imageBytes = (await png()).length;
      expect(await the.page.getByLabel("Text").inputValue()).toBe("");
      await the.page.getByRole("button", { name: "Find boat" }).click();
      await the.matches().first().waitFor();
      expect(the.gateway.asked).toMatchObject([
        { path: "/v1/documents", fields: { id: "boat", text: "A red boat" }, imageBytes },
        { path: "/v1/match", fields: { text: "A red boat", topK: 5 }, imageBytes },
      ]);
      await the.page.getByRole("button", { name: "Delete boat" }).click();
      await the.page.locator("#announcer").getByText("boat was deleted.").waitFor();
      expect(the.gateway.deleted).toEqual(["boat"]);
      expect(await the.page.locator("#added li").count()).toBe(0);
    });

    test("a document that is stored already can't be deleted as if it were new", async () => {
      the.gateway.scenario.write = async () => ({ id: "old", status: "unchanged" });
      await the.open();
      await add("A red boat");
      await the.page.locator("#added").getByText("old is stored already, with the same content.").waitFor();
      expect(await the.page.getByRole("button", { name: "Delete old" }).count()).toBe(0);
    });

    test("a refused document stays in the form, which shows the reason once and leads to the field", async () => {
      const sentence = "Unsupported image format; send a JPEG, PNG or WebP image.";
      the.gateway.scenario.write = async () => {
        throw new Refusal(415, sentence, "image");
      };
      await the.open();
      await add("A red boat");
      await problem().getByText(sentence).waitFor();
      expect(await the.page.locator("main").getByText(sentence).count()).toBe(1);
      expect(await the.focusedId()).toBe("add-image-file");
      expect(await the.page.locator("#add-image-file").getAttribute("aria-invalid")).toBe("true");
      expect(await the.page.getByLabel("Text").inputValue()).toBe("A red boat");
      await keepScreenshot(the.page, "add-refused");
    });

    test("an empty form asks for a text or a picture", async () => {
      await the.open();
      await add("");
      await problem().getByText("Write a text or add an image first.").waitFor();
      expect(await the.focusedId()).toBe("add-text");
      expect(the.gateway.asked).toEqual([]);
    });

    test("a document shows its progress and can be cancelled", async () => {
      the.gateway.scenario.write = () => never() as Promise<never>;
      await the.open();
      await add("A red boat");
      await the.page.getByRole("progressbar", { name: "Indexing…" }).waitFor();
      await the.page.getByRole("button", { name: "Cancel" }).click();
      await the.page.getByRole("progressbar").waitFor({ state: "hidden" });
      expect(await the.focusedId()).toBe("add-submit");
      expect(await the.page.getByLabel("Text").inputValue()).toBe("A red boat");
    });

    test("a document that needs a key is added once the key is given", async () => {
      await the.open();
      await the.question().waitFor();
      the.gateway.scenario.key = "sk-new";
      await add("A red boat");
      await the.page.locator("#key-form").waitFor();
      await the.giveKey("sk-new");
      await the.page.locator("#added").getByText("made-up was added.").waitFor();
      expect(the.gateway.asked.map(({ authorization }) => authorization)).toEqual(["Bearer sk-new"]);
    });
  });

  test("a model, a number of matches and a way of comparing images can be chosen", async () => {
    the.gateway.scenario.services = [
      ...READY,
      {
        name: "llava",
        kind: "vision-language-model",
        state: "starting",
        latencyMilliseconds: null,
        detail: "Triton answers, and its model ensemble is not ready",
      },
    ];
    await the.open();
    await the.chooseImage("a.png");
    await the.page.getByText("Options").click();
    await the.page.getByLabel("Matches 3").selectOption("10");
    await the.page.getByLabel("Model").selectOption("llava");
    await the.page.getByLabel("Image is compared by").selectOption("its description in words");
    the.gateway.scenario.match = () => ({
      matches: [],
      fusion: null,
      via: "describe",
      description: "a red square",
    });
    await the.ask("What is it?");
    await the.answer().getByText("done after").waitFor();
    expect(the.gateway.asked.map(({ fields }) => fields)).toEqual([
      { topK: 10, via: "describe" },
      { question: "What is it?", topK: 10, model: "llava", stream: true },
    ]);
  });

  const { question } = sampleManifest();

  const IMAGE = { url: "/v1/documents/x/image", width: 640, height: 420 };

  const SAMPLES: readonly FakeSample[] = [
    { id: "sample-boats", image: IMAGE, metadata: { collection: "samples" } },
    { id: question.picture, image: IMAGE, metadata: { question: question.text } },
  ];

  describe("sample question", needs(AT_NIGHT), () => {
    const offer = () => the.page.getByRole("button", { name: `Try it: ${question.text}` });

    test("one click asks the sample question with its picture", async () => {
      the.gateway.scenario.samples = SAMPLES;
      await the.open();
      await offer().click();
      await the.answer().getByText("done after").waitFor();
      const picture = await fetch(`${the.gateway.url}/v1/documents/${question.picture}/image`);
      const imageBytes = (await picture.arrayBuffer()).byteLength;
      expect(the.gateway.asked).toMatchObject([
        { path: "/v1/match", fields: { text: question.text }, imageBytes },
        { path: "/v1/answer", fields: { question: question.text }, imageBytes },
      ]);
      expect(await the.question().inputValue()).toBe(question.text);
      await the.page.locator("#image .drop").getByText(`${question.picture}.jpg`).waitFor();
    });

    test("the curl lines of the sample question fetch its picture, and those of a reader's own image do not", async () => {
      the.gateway.scenario.samples = SAMPLES;
      await the.open();
      await offer().click();
      const lines = the.page.locator("#requests pre");
      await expect.poll(() => lines.count()).toBe(3);
      expect(await lines.first().textContent()).toBe(
        `curl ${the.gateway.url}/v1/documents/${question.picture}/image \\\n  --output ${question.picture}.jpg`,
      );
      expect(await lines.last().textContent()).toContain(`--form image=@${question.picture}.jpg`);
      await the.page.getByRole("button", { name: "Remove image" }).click();
      await the.page.getByRole("button", { name: "Ask" }).click();
      await expect.poll(() => lines.count()).toBe(2);
    });

    test("the sample question is offered after the key is given", async () => {
      the.gateway.scenario.samples = SAMPLES;
      the.gateway.scenario.key = "secret";
      await the.open();
      await the.giveKey("secret");
      await offer().waitFor();
    });

    test.each<[string, readonly FakeSample[]]>([
      ["has no question", [{ id: "sample-boats", image: IMAGE, metadata: {} }]],
      [
        "has lost its picture",
        [{ id: question.picture, image: null, metadata: { question: question.text } }],
      ],
      ["is another user's document", [{ id: "tank", image: IMAGE, metadata: { question: "Why?" } }]],
    ])("the sample question is not offered if the only sample %s", async (_what, samples) => {
      the.gateway.scenario.samples = samples;
      await the.open();
      await expect.poll(() => the.gateway.sampleLists).toBe(1);
      // The page requests the state again after it has processed the list.
      const { statusRequests } = the.gateway;
      await expect
        .poll(() => the.gateway.statusRequests, { timeout: 15_000 })
        .toBeGreaterThan(statusRequests);
      expect(await the.page.locator("#example").isVisible()).toBe(false);
    });

    test("the sample question is not offered if images can't be searched", async () => {
      the.gateway.scenario.samples = SAMPLES;
      the.gateway.scenario.services = READY.filter(({ kind }) => kind !== "image-encoder");
      await the.open();
      await expect.poll(() => the.page.locator("#example-question").textContent()).toBe(question.text);
      expect(await the.page.locator("#example").isVisible()).toBe(false);
    });
  });

  test("an API key is asked for, kept only by the tab, sent with every request, and forgotten", async () => {
    the.gateway.scenario.key = "sk-right";
    await the.open();
    await the.page.getByText("Missing API key; send it as Authorization: Bearer KEY.").first().waitFor();
    await keepScreenshot(the.page, "key");
    await the.giveKey("sk-wrong");
    await the.page.locator("#key-reason").getByText("Unknown API key; check it for typing errors.").waitFor();
    await the.giveKey("sk-right");
    await the.page.locator("#key-form").waitFor({ state: "hidden" });
    await the.ask("cat");
    await the.answer().getByText("done after").waitFor();
    await the.matches().first().getByRole("img").waitFor();
    expect(the.gateway.asked.map(({ authorization }) => authorization)).toEqual([
      "Bearer sk-right",
      "Bearer sk-right",
    ]);
    const lines = await the.page.locator("#requests pre").allTextContents();
    expect(lines.join()).toContain('--header "authorization: Bearer $ENGINE_ROOM_API_KEY"');
    expect(await the.page.content()).not.toContain("sk-right");
    expect(await the.page.evaluate("[localStorage.length, document.cookie, location.search]")).toEqual([
      0,
      "",
      "",
    ]);
    await the.page.getByRole("button", { name: "Forget key" }).click();
    await the.page.locator("#key-form").waitFor();
    expect(await the.page.evaluate("sessionStorage.length")).toBe(0);
  });

  test("a question continues once a missing API key is given", async () => {
    await the.open();
    await the.question().fill("cat");
    the.gateway.scenario.key = "sk-new";
    await the.question().press("Enter");
    await the.page.locator("#key-form").waitFor();
    await the.giveKey("sk-new");
    await the.answer().getByText("done after").waitFor();
    expect(await the.matches().count()).toBe(3);
  });

  test("failures are shown in the API's own sentences", async () => {
    the.gateway.scenario.match = () => {
      throw new Refusal(
        503,
        "The vector database (vector) can't be reached; it may be starting. Try again in 5 s.",
      );
    };
    the.gateway.scenario.answer = () => [
      ["sources", SOURCES],
      ["delta", { text: "A half " }],
      ["error", { error: { message: "The Triton server of smollm2 failed during its answer; try again." } }],
    ];
    await the.open();
    await the.ask("cat");
    await the.page
      .locator("#matches")
      .getByText("The vector database (vector) can't be reached; it may be starting.")
      .waitFor();
    await the
      .answer()
      .getByText("The Triton server of smollm2 failed during its answer; try again.")
      .waitFor();
    await the.answer().getByText("A half").waitFor();
    await the.answer().getByText("Not complete.").waitFor();
    await keepScreenshot(the.page, "errors");
  });

  test.each([
    [415, "Unsupported image format; send a JPEG, PNG or WebP image.", "#ask"],
    [503, "The vector database (vector) can't be reached; it may be starting.", "#matches"],
  ])("a failure with status %i of match and answer is shown once", async (status, sentence, place) => {
    const fail = () => {
      throw new Refusal(status, sentence);
    };
    Object.assign(the.gateway.scenario, { match: fail, answer: fail });
    await the.open();
    await the.ask("cat");
    await the.page.getByRole("button", { name: "Stop" }).waitFor({ state: "hidden" });
    await the.page.locator(place).or(the.answer()).getByText(sentence).waitFor();
    expect(await the.page.locator("main").getByText(sentence).filter({ visible: true }).count()).toBe(1);
  });

  test("an answer that breaks off is reported", async () => {
    the.gateway.scenario.answer = () => [
      ["sources", SOURCES],
      ["delta", { text: "A half" }],
    ];
    await the.open();
    await the.ask("cat");
    await the
      .answer()
      .getByText("The answer is incomplete: the connection to the gateway was lost. Try again.")
      .waitFor();
  });

  test("a match whose picture is lost stays visible", async () => {
    the.gateway.scenario.match = () => ({
      matches: [
        {
          id: "lost",
          score: 1,
          scores: {},
          text: "It was here.",
          textTruncated: false,
          metadata: {},
          image: "/v1/documents/lost/image",
        },
      ],
      fusion: null,
      via: "vectors",
    });
    await the.open();
    await the.ask("cat");
    await the.matches().first().getByText("No picture: Document not found: lost.").waitFor();
    await the.matches().first().getByText("It was here.").waitFor();
  });

  test("an unreachable gateway is reported, and used again when it is back", async () => {
    await the.open();
    await the.question().waitFor();
    await the.page.route("**/*", (route) => route.abort());
    await the.page.locator("#overall").getByText("gateway is unavailable").waitFor();
    await the.ask("cat");
    await the.page
      .locator("#results")
      .getByText("The gateway does not answer; it may have been stopped.")
      .waitFor();
    await the.page.unroute("**/*");
    await the.page.locator("#overall").getByText("All 6 services ready").waitFor();
  });

  test("services are shown with their states, and refreshed while the page is visible", async () => {
    the.gateway.scenario.services = READY.map((one) =>
      one.name === "vector"
        ? {
            ...one,
            state: "unavailable" as const,
            latencyMilliseconds: null,
            detail: "it does not answer (ECONNREFUSED)",
          }
        : one,
    );
    await the.open();
    await the.page.locator("#overall").getByText("vector is unavailable").waitFor();
    await the.page
      .locator("#notices")
      .getByText(
        "vector is unavailable: it does not answer (ECONNREFUSED). Searches that need it fail until it is ready.",
      )
      .waitFor();
    await keepScreenshot(the.page, "vector-unavailable");
    the.gateway.scenario.services = READY;
    await the.page.locator("#overall").getByText("All 6 services ready").waitFor();
    await the.page.locator("#service-list").getByText("4.7 ms").waitFor();
    expect(await the.page.locator("#notices").isVisible()).toBe(false);
  });

  test("a hidden page does not request the state of services", async () => {
    await the.open({});
    // The clock controls only timers of pages that are loaded after it.
    await the.page.clock.install();
    await the.page.reload();
    await the.page.locator("#overall").getByText("All 6 services ready").waitFor();
    const setHidden = (isHidden: boolean) =>
      `Object.defineProperty(document, "hidden", { value: ${isHidden}, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));`;
    // Counted in the page, so that earlier requests are excluded.
    await the.page.evaluate(`{
      ${setHidden(true)}
      globalThis.requests = [];
      const send = fetch;
      globalThis.fetch = (url, options) => (requests.push(new URL(url).pathname), send(url, options));
    }`);
    await the.page.clock.runFor(60_000);
    expect(await the.page.evaluate("requests")).toEqual([]);
    expect(await the.page.evaluate(`${setHidden(false)} requests`)).toEqual(["/healthz", "/status"]);
  });

  describe("gateway without parts", needs(AT_NIGHT), () => {
    const without = (...kinds: string[]) => READY.filter(({ kind }) => !kinds.includes(kind));

    test("a gateway without documents says how to load some, until there are documents", async () => {
      the.gateway.scenario.documents = 0;
      await the.open();
      await the.page.locator("#notices").getByText("There are no documents yet.").waitFor();
      await the.page.getByText("npx engine-room seed", { exact: true }).waitFor();
      await the.page.getByLabel("Text").waitFor();
      await keepScreenshot(the.page, "no-documents");
      the.gateway.scenario.documents = 3;
      await the.page.getByText("There are no documents yet.").waitFor({ state: "hidden" });
    });

    test("a search without matches says that nothing was found", async () => {
      the.gateway.scenario.match = () => ({ matches: [], fusion: null, via: "vectors" });
      the.gateway.scenario.answer = () => [
        [
          "sources",
          { sources: [], model: "smollm2", imageUsed: false, note: "No document with a text was found." },
        ],
        ["done", { ...END, usage: { ...END.usage, completion_tokens: 0 } }],
      ];
      await the.open();
      await the.ask("cat");
      await the.page.getByText("No matches. Try other words, or an image.").waitFor();
      await the.answer().getByText("No document with a text was found.").waitFor();
    });

    test("a gateway without databases has no question box, gives the reason, and shows its other requests", async () => {
      the.gateway.scenario.services = without("document-database", "vector-database");
      await the.open();
      await the.page
        .getByText("Search is unavailable: no databases are configured for this gateway.")
        .waitFor();
      expect(await the.question().isVisible()).toBe(false);
      const line = await the.page.locator("#requests pre").textContent();
      expect(line).toContain("/v1/chat/completions");
      await keepScreenshot(the.page, "no-databases");
    });

    test("a page of a gateway without a language model only searches", async () => {
      the.gateway.scenario.services = without("language-model");
      await the.open();
      await the.page.getByText("Answers are unavailable: no chat model is configured").waitFor();
      await the.question().fill("cat");
      await the.page.getByRole("button", { name: "Find", exact: true }).click();
      await the.matches().first().waitFor();
      expect(the.gateway.asked.map(({ path }) => path)).toEqual(["/v1/match"]);
      expect(await the.page.getByRole("button", { name: "Find only" }).isVisible()).toBe(false);
    });

    test("a page of a gateway without an image encoder accepts only text", async () => {
      the.gateway.scenario.services = without("image-encoder");
      await the.open();
      await the.page.getByText("Search by image is unavailable").waitFor();
      expect(await the.page.locator("#image .drop").isVisible()).toBe(false);
    });
  });
});
