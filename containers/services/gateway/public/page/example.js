/** The question that comes with the sample collection, offered where the collection is loaded. */
import { get } from "./api.js";
import { byId } from "./dom.js";

/** Ids of the collection begin so. */
const ID_PREFIX = "sample-";
/** The collection is smaller. */
const LOOKED_AT = 50;
const TIMEOUT_MILLISECONDS = 5000;

/**
 * @typedef {object} Example
 * @property {string} question About the picture.
 * @property {File} image The picture, as the gateway keeps it.
 * @property {string} path Of the picture, relative to the page.
 */

/**
 * @param {(example: Example) => void} onChosen
 * @returns {{
 *   look(): Promise<void>,
 *   enable(isEnabled: boolean): void,
 *   pathOf(image: File | undefined): string | undefined,
 * }} `look` asks the gateway for it, `pathOf` is where an image came from, if it is the example's; it throws ApiFailure.
 */
export function exampleOffer(onChosen) {
  const button = byId("example", HTMLButtonElement);
  /** @type {Example | undefined} */
  let offered;
  let isEnabled = false;
  const show = () => {
    button.hidden = !isEnabled || offered === undefined;
  };
  button.addEventListener("click", () => {
    if (offered !== undefined) onChosen(offered);
  });
  return {
    async look() {
      if (offered !== undefined) return;
      offered = await findExample(AbortSignal.timeout(TIMEOUT_MILLISECONDS));
      if (offered === undefined) return;
      byId("example-picture", HTMLImageElement).src = URL.createObjectURL(offered.image);
      byId("example-question", HTMLSpanElement).textContent = offered.question;
      show();
    },
    enable(wanted) {
      isEnabled = wanted;
      show();
    },
    pathOf: (image) => (image !== undefined && image === offered?.image ? offered.path : undefined),
  };
}

/**
 * @param {AbortSignal} signal
 * @returns {Promise<Example | undefined>} Undefined where no sample has a question.
 * @throws {import("./api.js").ApiFailure}
 */
async function findExample(signal) {
  const list = await get(`v1/documents?after=${ID_PREFIX}&limit=${LOOKED_AT}`, signal);
  /** @type {{ documents: readonly { id: string, image: object | null, metadata: { question?: unknown } }[] }} */
  const { documents } = await list.json();
  for (const { id, image, metadata } of documents) {
    const { question } = metadata;
    if (!id.startsWith(ID_PREFIX) || image === null || typeof question !== "string") continue;
    const path = `v1/documents/${encodeURIComponent(id)}/image`;
    const picture = await (await get(path, signal)).blob();
    return { question, image: new File([picture], `${id}.jpg`, { type: picture.type }), path };
  }
  return undefined;
}
