/** The answer while it is written, and the documents that it stands on. */
import { brokenOff, stream } from "./api.js";
import { announce, byId, duration, element, notice } from "./dom.js";
import { cardId } from "./matches.js";

/**
 * @typedef {object} Head
 * @property {readonly { id: string, text: string, score: number, image: string | null }[]} sources
 * @property {string} model
 * @property {boolean} imageUsed
 * @property {string} [note]
 * @typedef {{ usage: { completion_tokens: number }, finishReason: "stop" | "length" }} End
 */

const SOURCE_CHARACTERS = 140;

/**
 * Asks and shows, until the answer is complete.
 * @param {import("./api.js").Call} call
 * @param {import("./pictures.js").Pictures} pictures
 * @param {AbortSignal} signal Stops the model too; what was written stays.
 * @throws {import("./api.js").ApiFailure}
 */
export async function showAnswer(call, pictures, signal) {
  const section = byId("answer", HTMLElement);
  const text = byId("answer-text", HTMLDivElement);
  const facts = byId("answer-facts", HTMLParagraphElement);
  clearAnswer();
  section.hidden = false;
  text.setAttribute("aria-busy", "true");
  facts.textContent = "Looking for documents…";
  const started = performance.now();
  /** @type {Head | undefined} */
  let head;
  /** @type {End | undefined} */
  let end;
  let firstWordsAfter = 0;
  try {
    for await (const { event, data } of stream(call, signal)) {
      if (event === "sources") {
        head = /** @type {Head} */ (data);
        facts.textContent = `${head.model} is reading…`;
        showSources(head, pictures);
      } else if (event === "delta") {
        if (firstWordsAfter === 0) {
          firstWordsAfter = performance.now() - started;
          facts.textContent = `${head?.model ?? "The model"} is writing…`;
        }
        text.append(text.textContent === "" ? data.text.trimStart() : data.text);
      } else if (event === "done") {
        end = /** @type {End} */ (data);
      }
    }
    if (end === undefined) throw brokenOff();
  } catch (error) {
    facts.textContent = text.textContent === "" ? "" : "Not complete.";
    throw error;
  } finally {
    text.setAttribute("aria-busy", "false");
  }
  facts.textContent = factsOf(head, end, firstWordsAfter, performance.now() - started);
  if (text.textContent === "" && head?.note === undefined) {
    text.append(element("span", { class: "quiet" }, "The model wrote nothing."));
  }
  announce(`Answer: ${text.textContent || (head?.note ?? "")}`);
}

/** Empties and hides the section. */
export function clearAnswer() {
  byId("answer", HTMLElement).hidden = true;
  for (const id of ["answer-text", "answer-problem", "answer-sources"])
    byId(id, HTMLDivElement).replaceChildren();
  byId("answer-facts", HTMLParagraphElement).textContent = "";
}

/**
 * @param {Head | undefined} head
 * @param {End} end
 * @param {number} firstWordsAfter Milliseconds; 0 where there were none.
 * @param {number} doneAfter Milliseconds.
 * @returns {string}
 */
function factsOf(head, { usage, finishReason }, firstWordsAfter, doneAfter) {
  const tokens = usage.completion_tokens;
  return [
    ...(head === undefined ? [] : [head.model]),
    `${tokens} ${tokens === 1 ? "token" : "tokens"}`,
    ...(firstWordsAfter === 0 ? [] : [`first words after ${duration(firstWordsAfter)}`]),
    `done after ${duration(doneAfter)}`,
    ...(finishReason === "length" ? ["cut off at its longest length"] : []),
  ].join(" · ");
}

/**
 * @param {Head} head
 * @param {import("./pictures.js").Pictures} pictures
 */
function showSources({ sources, note }, pictures) {
  const parts = [];
  if (note !== undefined) parts.push(notice("info", note));
  if (sources.length > 0) {
    const rows = sources.map((source) => element("li", {}, sourceLink(source, pictures)));
    parts.push(
      element("h3", { id: "sources-title" }, "Sources"),
      element("ol", { class: "source-list", "aria-labelledby": "sources-title" }, ...rows),
    );
  }
  byId("answer-sources", HTMLDivElement).replaceChildren(...parts);
}

/**
 * @param {Head["sources"][number]} source
 * @param {import("./pictures.js").Pictures} pictures
 * @returns {HTMLElement} A link to the document's card among the matches.
 */
function sourceLink({ id, text, image }, pictures) {
  const shown = text.length > SOURCE_CHARACTERS ? `${text.slice(0, SOURCE_CHARACTERS)}…` : text;
  return element(
    "a",
    { href: `#${encodeURIComponent(cardId(id))}` },
    ...(image === null ? [] : [pictures.show(image, "")]),
    element("span", {}, element("b", {}, id), " ", shown),
  );
}
