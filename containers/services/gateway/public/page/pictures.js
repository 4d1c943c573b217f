/** Pictures of documents. They are fetched, because an <img> can't send an API key. */
import { get } from "./api.js";
import { element } from "./dom.js";

/** The pictures of one question, each fetched once and let go together. */
export class Pictures {
  /** @type {Map<string, Promise<string>>} */
  #addresses = new Map();
  #ending = new AbortController();

  /**
   * @param {string} path Of the image on this gateway.
   * @param {string} alt
   * @returns {HTMLElement} A frame that the picture fills when it is there.
   */
  show(path, alt) {
    const frame = element("div", { class: "picture" });
    this.#address(path).then(
      (address) => frame.append(element("img", { src: address, alt })),
      (error) => {
        if (this.#ending.signal.aborted) return;
        frame.append(element("span", { class: "quiet" }, `No picture: ${error.message}`));
      },
    );
    return frame;
  }

  /** Lets all of them go. */
  release() {
    this.#ending.abort();
    for (const address of this.#addresses.values()) address.then(URL.revokeObjectURL, () => undefined);
  }

  /**
   * @param {string} path
   * @returns {Promise<string>}
   */
  #address(path) {
    const known = this.#addresses.get(path);
    if (known) return known;
    const address = fetchPicture(path, this.#ending.signal);
    this.#addresses.set(path, address);
    return address;
  }
}

/**
 * @param {string} path
 * @param {AbortSignal} signal
 * @returns {Promise<string>} An address that this page alone can use.
 */
async function fetchPicture(path, signal) {
  // The key goes to the gateway alone.
  if (new URL(path, document.baseURI).origin !== location.origin) {
    throw new Error("it is on another host, from which this page takes none.");
  }
  const response = await get(path, signal);
  return URL.createObjectURL(await response.blob());
}
