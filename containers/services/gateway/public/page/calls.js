/** Requests of this page, by what is in its fields. */

/** @typedef {import("./api.js").Call} Call */

/**
 * @typedef {object} Options
 * @property {number} topK
 * @property {string} model Empty: the gateway's choice.
 * @property {boolean} isDescribed Whether an image is compared by its description.
 */

/**
 * @param {string} words
 * @param {File | undefined} image
 * @param {Options} options
 * @returns {Call}
 */
export function matchCall(words, image, { topK, isDescribed }) {
  // The description takes the place of the words.
  if (image !== undefined && isDescribed)
    return { path: "v1/match", fields: { topK, via: "describe" }, image };
  return { path: "v1/match", fields: { ...(words !== "" && { text: words }), topK }, image };
}

/**
 * @param {string} question
 * @param {File | undefined} image
 * @param {Options} options
 * @returns {Call}
 */
export function answerCall(question, image, { topK, model }) {
  return {
    path: "v1/answer",
    fields: { question, topK, ...(model !== "" && { model }), stream: true },
    image,
  };
}

/**
 * What a gateway without documents is asked.
 * @param {string} model
 * @returns {Call}
 */
export function exampleCall(model) {
  const messages = [{ role: "user", content: "What is the capital of France?" }];
  return { path: "v1/chat/completions", fields: { model, messages }, image: undefined };
}
