/** What was found, with pictures, captions and how each came to its place. */
import { post } from "./api.js";
import { announce, byId, duration, element, notice } from "./dom.js";

/**
 * @typedef {{ score: number, rank: number }} PartScore
 * @typedef {object} Match
 * @property {string} id
 * @property {number} score
 * @property {{ text?: PartScore, image?: PartScore }} scores
 * @property {string | null} text
 * @property {Readonly<Record<string, unknown>>} metadata
 * @property {string | null} image Path on this gateway.
 * @typedef {object} MatchAnswer
 * @property {readonly Match[]} matches
 * @property {{ method: "rrf", k: number } | null} fusion
 * @property {"vectors" | "describe"} via
 * @property {string} [description]
 */

/** A longer caption is folded. */
const CAPTION_CHARACTERS = 240;

/** @type {readonly ["text", "image"]} */
const PARTS = ["text", "image"];
const PART_WORDS = { text: "Words", image: "Picture" };

/**
 * Looks for documents and shows them.
 * @param {import("./api.js").Call} call
 * @param {import("./pictures.js").Pictures} pictures
 * @param {AbortSignal} signal
 * @throws {import("./api.js").ApiFailure}
 */
export async function showMatches(call, pictures, signal) {
  byId("matches", HTMLElement).hidden = false;
  const body = byId("matches-body", HTMLDivElement);
  body.replaceChildren(element("p", { class: "quiet" }, "Looking…"));
  const started = performance.now();
  /** @type {MatchAnswer} */
  const answer = await post(call, signal);
  const took = duration(performance.now() - started);
  body.replaceChildren(...matchList(answer, took, pictures));
  const count = answer.matches.length;
  announce(count === 1 ? "1 match." : `${count || "No"} matches.`);
}

/** Empties and hides the section. */
export function clearMatches() {
  byId("matches", HTMLElement).hidden = true;
  byId("matches-body", HTMLDivElement).replaceChildren();
}

/**
 * @param {MatchAnswer} answer
 * @param {string} took
 * @param {import("./pictures.js").Pictures} pictures
 * @returns {HTMLElement[]}
 */
function matchList(answer, took, pictures) {
  const { matches, fusion } = answer;
  if (matches.length === 0) {
    return [
      ...described(answer),
      notice("info", "Nothing was found. Other words, or an image, may find something."),
    ];
  }
  const best = Math.max(...matches.map(({ score }) => score));
  const cards = matches.map((match, index) => card(match, index + 1, { best, fusion, pictures }));
  return [...described(answer), explanation(answer, took), element("ol", { class: "match-list" }, ...cards)];
}

/**
 * Id of a match's card, for links to it.
 * @param {string} documentId
 * @returns {string}
 */
export function cardId(documentId) {
  return `match-${encodeURIComponent(documentId)}`;
}

/**
 * @param {MatchAnswer} answer
 * @returns {HTMLElement[]} Nothing where the image itself was looked for.
 */
function described({ description }) {
  if (description === undefined) return [];
  return [element("p", { class: "quiet" }, "The image was described as: ", element("q", {}, description))];
}

/**
 * @param {MatchAnswer} answer
 * @param {string} took
 * @returns {HTMLElement}
 */
function explanation({ fusion, matches }, took) {
  const isByImage = matches[0]?.scores.image !== undefined;
  return element(
    "p",
    { class: "quiet" },
    fusion === null
      ? `Found in ${took}, ordered by cosine similarity of ${isByImage ? "the image and the documents' pictures" : "the words and the documents' texts"}; 1 is the same.`
      : `Found in ${took}, once by the words among texts and once by the image among pictures. Reciprocal rank fusion joins the two lists: a place counts 1 ÷ (${fusion.k} + place), and the sum is the score.`,
  );
}

/**
 * @param {Match} match
 * @param {number} place
 * @param {{ best: number, fusion: MatchAnswer["fusion"], pictures: import("./pictures.js").Pictures }} context
 * @returns {HTMLLIElement}
 */
function card(match, place, { best, fusion, pictures }) {
  const { id, score, scores, text, image, metadata } = match;
  const bar = element("span", { class: "bar", "aria-hidden": "true" });
  bar.style.setProperty("--share", String(best > 0 ? Math.max(0, score / best) : 0));
  const body = element(
    "div",
    { class: "match-body" },
    element(
      "h3",
      {},
      element("span", { class: "place" }, element("span", { class: "unseen" }, "Place "), String(place)),
      element("span", { class: "match-id" }, id),
      element("span", { class: "score" }, element("span", { class: "unseen" }, "Score "), score.toFixed(3)),
    ),
    bar,
    ...(text === null ? [] : caption(text)),
    ...(fusion === null ? [] : [partList(scores, fusion)]),
    ...(Object.keys(metadata).length === 0
      ? []
      : [
          element(
            "details",
            {},
            element("summary", {}, "Metadata"),
            element("pre", {}, JSON.stringify(metadata, undefined, 2)),
          ),
        ]),
  );
  const picture = image === null ? [] : [pictures.show(image, `Picture of ${id}`)];
  return element("li", { class: "match", id: cardId(id), tabindex: "-1" }, ...picture, body);
}

/**
 * @param {string} text
 * @returns {HTMLElement[]}
 */
function caption(text) {
  if (text.length <= CAPTION_CHARACTERS) return [element("p", { class: "caption" }, text)];
  const start = text.slice(0, CAPTION_CHARACTERS).replace(/\s+\S*$/, "");
  return [
    element("p", { class: "caption" }, `${start}…`),
    element("details", {}, element("summary", {}, "Whole text"), element("p", { class: "caption" }, text)),
  ];
}

/**
 * Where each list had the document, and what that counts.
 * @param {Match["scores"]} scores
 * @param {{ k: number }} fusion
 * @returns {HTMLElement}
 */
function partList(scores, { k }) {
  const rows = PARTS.map((name) => {
    const part = scores[name];
    const words =
      part === undefined
        ? "not in this list"
        : `place ${part.rank}, similarity ${part.score.toFixed(3)}, counts ${(1 / (k + part.rank)).toFixed(3)}`;
    return element("li", {}, `${PART_WORDS[name]}: ${words}`);
  });
  return element("ul", { class: "parts" }, ...rows);
}
