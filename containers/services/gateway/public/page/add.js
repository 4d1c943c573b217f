/** The form that adds a document: sends it with its progress, and offers to find it and to delete it. */
import { ApiFailure, request } from "./api.js";
import { announce, byId, element, say } from "./dom.js";
import { pictureField } from "./pictures.js";

/** Characters of a text that the search for its document uses. */
const QUERY_CHARACTERS = 120;

/** Words for the document's status in the gateway's answer. @type {Readonly<Record<string, string>>} */
const OUTCOMES = {
  created: "was added",
  updated: "was replaced",
  unchanged: "is stored already, with the same content",
};

/**
 * @param {object} page
 * @param {() => void} page.onChanged
 * @param {(reason: string, again: () => void) => void} page.onKeyNeeded
 * @param {(words: string, image: File | undefined) => void} page.find
 */
export function setUpAdding({ onChanged, onKeyNeeded, find }) {
  const form = byId("add-form", HTMLFormElement);
  const text = byId("add-text", HTMLTextAreaElement);
  const id = byId("add-id", HTMLInputElement);
  const cancel = byId("add-cancel");
  const progress = byId("add-progress");
  const image = pictureField(byId("add-image"), (problem) => tell(problem));
  /** Fields by their names in the API. @type {Readonly<Record<string, HTMLElement>>} */
  const inputs = { id, text, image: image.input };
  /** The document that is being sent. @type {AbortController | undefined} */
  let running;

  /**
   * @param {string} problem Empty removes the last problem.
   * @param {string | null} [field] The field with the problem.
   */
  function tell(problem, field) {
    say("add-problem", problem, "error");
    for (const [name, input] of Object.entries(inputs)) {
      const isWrong = name === field;
      input.ariaInvalid = String(isWrong);
      if (isWrong) input.focus();
    }
  }

  /** @param {number} share Sent part of the document. */
  function showProgress(share) {
    const isSent = share === 1;
    byId("add-progress-words").textContent = isSent ? "Indexing…" : `Uploading, ${Math.floor(share * 100)} %`;
    const bar = byId("add-progress-bar", HTMLProgressElement);
    if (isSent) bar.removeAttribute("value");
    else bar.value = share;
  }

  async function send() {
    if (running) return;
    const words = text.value.trim();
    const { file } = image;
    if (words === "" && !file) {
      tell("Write a text or add an image first.", "text");
      return;
    }
    tell("");
    running = new AbortController();
    const { signal } = running;
    for (const part of [cancel, progress]) part.hidden = false;
    const fields = {
      ...(id.value.trim() !== "" && { id: id.value.trim() }),
      ...(words !== "" && { text: words }),
    };
    try {
      announce("Uploading…");
      showProgress(0);
      const response = await request({ path: "v1/documents", fields, image: file }, signal, showProgress);
      const [added] = (await response.json()).documents;
      form.reset();
      image.set(undefined);
      byId("added").prepend(addedRow(added, words, file));
      announce(`${added.id} ${OUTCOMES[added.status]}. Searches find it now.`);
      onChanged();
    } catch (error) {
      if (signal.aborted) announce("Cancelled.");
      else if (error instanceof ApiFailure && error.status === 401) onKeyNeeded(error.message, send);
      else tell(/** @type {ApiFailure} */ (error).message, /** @type {ApiFailure} */ (error).param);
    } finally {
      running = undefined;
      if (document.activeElement === cancel) byId("add-submit").focus();
      for (const part of [cancel, progress]) part.hidden = true;
    }
  }

  /**
   * @param {{ id: string, status: string }} added
   * @param {string} words
   * @param {File | undefined} file
   */
  function addedRow({ id: added, status }, words, file) {
    const name = element("b", {}, added);
    const show = element("button", { type: "button", "aria-label": `Find ${added}` }, "Find it");
    const remove = element("button", { type: "button", "aria-label": `Delete ${added}` }, "Delete");
    const row = element(
      "li",
      {},
      element("span", {}, name, ` ${OUTCOMES[status]}. Searches find it now.`),
      element("span", { class: "buttons" }, show, status !== "unchanged" && remove),
    );
    show.addEventListener("click", () => find(words.slice(0, QUERY_CHARACTERS), file));
    remove.addEventListener("click", async () => {
      try {
        await request({ path: `v1/documents/${encodeURIComponent(added)}`, method: "DELETE" });
        row.remove();
        text.focus();
        announce(`${added} was deleted.`);
        onChanged();
      } catch (error) {
        tell(/** @type {ApiFailure} */ (error).message);
      }
    });
    return row;
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  cancel.addEventListener("click", () => running?.abort());
}
