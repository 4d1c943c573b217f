/** The requests that the page has just made, as lines to copy. */
import { announce, byId, element } from "./dom.js";

/** @param {readonly { title: string, line: string }[]} requests None hides the section. */
export function showRequests(requests) {
  byId("requests", HTMLElement).hidden = requests.length === 0;
  byId("requests-body", HTMLDivElement).replaceChildren(...requests.flatMap(requestBlock));
}

/**
 * @param {{ title: string, line: string }} request
 * @returns {HTMLElement[]}
 */
function requestBlock({ title, line }) {
  const code = element("pre", {}, line);
  const copy = element("button", { type: "button", class: "copy" }, "Copy");
  copy.append(element("span", { class: "unseen" }, ` the line: ${title}`));
  const [words] = copy.childNodes;
  copy.addEventListener("click", async () => {
    const isCopied = await copyText(line, code);
    if (words) words.textContent = isCopied ? "Copied" : "Selected";
    announce(
      isCopied ? "The line is in the clipboard." : "The line is selected; copy it with your keyboard.",
    );
    setTimeout(() => {
      if (words) words.textContent = "Copy";
    }, 2000);
  });
  return [element("div", { class: "request-head" }, element("h3", {}, title), copy), code];
}

/**
 * The clipboard is open to pages on HTTPS and this machine only; elsewhere the line is selected for the reader.
 * @param {string} text
 * @param {HTMLElement} shown
 * @returns {Promise<boolean>}
 */
async function copyText(text, shown) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection()?.selectAllChildren(shown);
    return false;
  }
}
