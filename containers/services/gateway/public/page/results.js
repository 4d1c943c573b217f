/** Results of a question: matches, the answer with its sources, and the requests as curl commands. */
/** @import { AnswerHead, Match, MatchResponse } from "../../src/retrieval/schemas.ts" */
/** @import { Call } from "./api.js" */
import { curlCommand, request, stream } from "./api.js";
import { announce, byId, duration, element, notice } from "./dom.js";

const CAPTION_CHARACTERS = 240;
const SOURCE_CHARACTERS = 140;

const emptyResults = byId("results").cloneNode(true);
/** Addresses of the pictures that are shown, by their paths on the gateway. @type {Map<string, Promise<string>>} */
const pictures = new Map();

/** Removes all results. A question that still runs writes into the removed elements. */
export function clearResults() {
  for (const address of pictures.values()) address.then(URL.revokeObjectURL, () => undefined);
  pictures.clear();
  byId("results").replaceWith(emptyResults.cloneNode(true));
}

/**
 * Looks for documents and shows them.
 * @param {Call} call
 * @param {AbortSignal} signal
 * @throws ApiFailure
 */
export async function showMatches(call, signal) {
  addCommand("Find matches", call);
  byId("matches").hidden = false;
  const body = byId("matches-body");
  body.replaceChildren(element("p", { class: "quiet" }, "Searching…"));
  const started = performance.now();
  /** @type {MatchResponse} */
  const answer = await (await request(call, signal)).json();
  const took = duration(performance.now() - started);
  const { matches, description } = answer;
  body.replaceChildren();
  if (description !== undefined) {
    const words = element("q", {}, description);
    body.append(element("p", { class: "quiet" }, "The image was described as: ", words));
  }
  if (matches.length === 0) {
    body.append(notice("info", "No matches. Try other words, or an image."));
  } else {
    const cards = matches.map((match, index) => card(match, index + 1, answer));
    body.append(
      element("p", { class: "quiet" }, `Found in ${took}, ${orderOf(answer)}`),
      element("ol", { class: "match-list" }, ...cards),
    );
  }
  announce(matches.length === 1 ? "1 match." : `${matches.length || "No"} matches.`);
}

/** @param {MatchResponse} answer */
function orderOf({ matches, fusion }) {
  if (fusion !== null)
    return `by text and by image. Reciprocal rank fusion combines the two lists: the score is the sum of 1 ÷ (${fusion.k} + rank).`;
  const compared = matches[0]?.scores.image ? "images" : "texts";
  return `ordered by cosine similarity of the ${compared}; 1 means identical.`;
}

/**
 * @param {Match} match
 * @param {number} rank
 * @param {MatchResponse} answer
 */
function card({ id, score, scores, text, image, metadata }, rank, { matches, fusion }) {
  const best = Math.max(...matches.map((match) => match.score));
  const bar = element("span", { class: "bar", "aria-hidden": "true" });
  bar.style.setProperty("--share", String(best > 0 ? Math.max(0, score / best) : 0));
  const caption = text && shortened(text, CAPTION_CHARACTERS);
  const body = element(
    "div",
    { class: "match-body" },
    element(
      "h3",
      {},
      element("span", { class: "place" }, unseen("Rank "), String(rank)),
      element("span", { class: "match-id" }, id),
      element("span", { class: "score" }, unseen("Score "), score.toFixed(3)),
    ),
    bar,
    caption && element("p", { class: "caption" }, caption),
    caption !== text && folded("Whole text", element("p", { class: "caption" }, text)),
    fusion &&
      element(
        "ul",
        { class: "parts" },
        part("Text", scores.text, fusion.k),
        part("Image", scores.image, fusion.k),
      ),
    Object.keys(metadata).length > 0 &&
      folded("Metadata", element("pre", {}, JSON.stringify(metadata, undefined, 2))),
  );
  const attributes = { class: "match", id: cardId(id), tabindex: "-1" };
  return element("li", attributes, image && picture(image, `Picture of ${id}`), body);
}

/**
 * The rank of a document in one of the two lists, and its part of the score.
 * @param {string} list
 * @param {Match["scores"]["text"]} found
 * @param {number} k
 */
function part(list, found, k) {
  const words = found
    ? `rank ${found.rank}, similarity ${found.score.toFixed(3)}, adds ${(1 / (k + found.rank)).toFixed(3)}`
    : "not in this list";
  return element("li", {}, `${list}: ${words}`);
}

/**
 * @param {string} text
 * @param {number} characters
 */
function shortened(text, characters) {
  return text.length > characters ? `${text.slice(0, characters).replace(/\s+\S*$/, "")}…` : text;
}

/** @param {string} words For screen readers only. */
function unseen(words) {
  return element("span", { class: "unseen" }, words);
}

/** @param {string} documentId */
function cardId(documentId) {
  return `match-${encodeURIComponent(documentId)}`;
}

/**
 * @param {string} summary
 * @param {HTMLElement} content
 */
function folded(summary, content) {
  return element("details", {}, element("summary", {}, summary), content);
}

/**
 * A frame for the picture, which is fetched once: an <img> can't send an API key.
 * @param {string} path Of the image on this gateway.
 * @param {string} alt
 */
function picture(path, alt) {
  const frame = element("div", { class: "picture" });
  const address = pictures.get(path) ?? fetchPicture(path);
  pictures.set(path, address);
  address.then(
    (src) => frame.append(element("img", { src, alt })),
    (error) => frame.append(element("span", { class: "quiet" }, `No picture: ${error.message}`)),
  );
  return frame;
}

/**
 * @param {string} path
 * @returns {Promise<string>} An address that only this page can use.
 */
async function fetchPicture(path) {
  // The key is sent only to the gateway.
  if (new URL(path, document.baseURI).origin !== location.origin) {
    throw new Error("it is on another host than this page.");
  }
  const response = await request({ path }, AbortSignal.timeout(60_000));
  return URL.createObjectURL(await response.blob());
}

/**
 * Streams and shows the answer.
 * @param {Call} call
 * @param {AbortSignal} signal Stops the model too; what was written stays.
 * @throws ApiFailure
 */
export async function showAnswer(call, signal) {
  addCommand("Stream an answer", call);
  const text = byId("answer-text");
  const facts = byId("answer-facts");
  byId("answer").hidden = false;
  text.ariaBusy = "true";
  facts.textContent = "Looking for documents…";
  const started = performance.now();
  /** @type {AnswerHead} */
  let head = { sources: [], model: "The model", imageUsed: false };
  let firstWords = "";
  try {
    for await (const { event, data } of stream(call, signal)) {
      if (event === "sources") {
        head = data;
        facts.textContent = `${head.model} is reading…`;
        showSources(head);
      } else if (event === "delta") {
        firstWords ||= `first words after ${duration(performance.now() - started)}`;
        facts.textContent = `${head.model} is writing…`;
        text.append(text.textContent === "" ? data.text.trimStart() : data.text);
      } else if (event === "done") {
        const tokens = data.usage.completion_tokens;
        facts.textContent = [
          head.model,
          `${tokens} ${tokens === 1 ? "token" : "tokens"}`,
          firstWords,
          `done after ${duration(performance.now() - started)}`,
          data.finishReason === "length" && "cut off at its token limit",
        ]
          .filter(Boolean)
          .join(" · ");
      }
    }
  } catch (error) {
    facts.textContent = text.textContent === "" ? "" : "Not complete.";
    throw error;
  } finally {
    text.ariaBusy = "false";
  }
  if (text.textContent === "" && head.note === undefined) {
    text.append(element("span", { class: "quiet" }, "The model returned an empty answer."));
  }
  announce(`Answer: ${text.textContent || head.note}`);
}

/** @param {AnswerHead} head */
function showSources({ sources, note }) {
  const rows = sources.map(({ id, text, image }) => {
    const words = element("span", {}, element("b", {}, id), " ", shortened(text, SOURCE_CHARACTERS));
    const href = `#${encodeURIComponent(cardId(id))}`;
    return element("li", {}, element("a", { href }, image && picture(image, ""), words));
  });
  const shown = byId("answer-sources");
  if (note !== undefined) shown.append(notice("info", note));
  if (rows.length > 0) {
    shown.append(
      element("h3", { id: "sources-title" }, "Sources"),
      element("ol", { class: "source-list", "aria-labelledby": "sources-title" }, ...rows),
    );
  }
}

/**
 * Shows a request as a command to copy.
 * @param {string} title
 * @param {Call} call
 */
export function addCommand(title, call) {
  const command = curlCommand(call);
  const code = element("pre", {}, command);
  const words = document.createTextNode("Copy");
  const attributes = { type: "button", class: "copy" };
  const copy = element("button", attributes, words, unseen(` the command: ${title}`));
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(command);
      words.data = "Copied";
      announce("The command is in the clipboard.");
    } catch {
      // The clipboard is open to pages on HTTPS and this machine only.
      getSelection()?.selectAllChildren(code);
      words.data = "Selected";
      announce("The command is selected; copy it with your keyboard.");
    }
    setTimeout(() => {
      words.data = "Copy";
    }, 2000);
  });
  byId("requests-body").append(
    element("div", { class: "request-head" }, element("h3", {}, title), copy),
    code,
  );
  byId("requests").hidden = false;
}
