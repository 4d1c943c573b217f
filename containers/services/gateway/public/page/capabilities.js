/** What this gateway can do, by the services behind it, and why not the rest. */

/**
 * A row of GET /status.
 * @typedef {object} Service
 * @property {string} name
 * @property {string} kind
 * @property {"ready" | "starting" | "away"} state
 * @property {number | null} latencyMilliseconds
 * @property {string} detail
 */

/**
 * @typedef {object} Capabilities
 * @property {boolean} canFind Documents by words.
 * @property {boolean} canFindImages Documents by an image.
 * @property {boolean} canDescribe Documents by a description of an image.
 * @property {readonly string[]} chatModels Those that can answer; the gateway's first choice first.
 * @property {readonly string[]} missing A sentence for each thing that this stack was built without.
 * @property {readonly string[]} troubles A sentence for each service that is not ready at the moment.
 */

const CHAT_KINDS = ["language-model", "vision-language-model"];

/** What does not work while a service of a kind is not ready. @type {Readonly<Record<string, string>>} */
const CONSEQUENCES = {
  "text-encoder": "Searches by words fail until it is ready.",
  "image-encoder": "Searches by image fail until it is ready.",
  "document-database": "Searches fail until it is ready.",
  "vector-database": "Searches fail until it is ready.",
  "language-model": "It gives no answers until it is ready.",
  "vision-language-model": "It gives no answers until it is ready.",
  "completion-model": "It completes no text until it is ready.",
};

/**
 * @param {readonly Service[]} services
 * @returns {Capabilities}
 */
export function capabilitiesOf(services) {
  const has = (/** @type {string} */ kind) => services.some((service) => service.kind === kind);
  const hasDatabases = has("document-database") && has("vector-database");
  const canFind = hasDatabases && has("text-encoder");
  const chatModels = services.filter(({ kind }) => CHAT_KINDS.includes(kind)).map(({ name }) => name);
  const missing = [];
  if (!hasDatabases) {
    missing.push("There is nothing to search: this gateway's configuration names no databases.");
    if (services.length > 0) missing.push("Its models answer under /v1, as the OpenAI API does.");
  } else if (!canFind) {
    missing.push("There is nothing to search with: this gateway's configuration names no encoders.");
  }
  if (canFind && !has("image-encoder")) {
    missing.push("A search takes words only: this gateway's encoders have no model for images.");
  }
  if (canFind && chatModels.length === 0) {
    missing.push("You get matches and no answer in words: this gateway has no language model that chats.");
  }
  return {
    canFind,
    canFindImages: canFind && has("image-encoder"),
    canDescribe: canFind && has("vision-language-model"),
    chatModels,
    missing,
    troubles: services
      .filter(({ state }) => state !== "ready")
      .map(({ name, kind, state, detail }) =>
        [`${name} is ${state === "away" ? "away" : "not ready yet"}: ${detail}.`, CONSEQUENCES[kind] ?? ""]
          .join(" ")
          .trim(),
      ),
  };
}
