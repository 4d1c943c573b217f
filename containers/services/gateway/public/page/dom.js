/** Creates and finds elements. Text always becomes text nodes: nothing here parses markup. */

/**
 * Makes an element.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Readonly<Record<string, string>>} attributes
 * @param {...(Node | string | false | null | undefined)} children Nodes and texts; `false` and null are left out.
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.filter((child) => child !== false && child != null));
  return made;
}

/**
 * The element with this id.
 * @template {HTMLElement} [Type=HTMLElement]
 * @param {string} id
 * @param {new () => Type} [type]
 * @returns {Type}
 * @throws {Error} When the page lacks it, or it has another type.
 */
export function byId(id, type) {
  const found = document.getElementById(id);
  if (!(found instanceof (type ?? HTMLElement))) throw new Error(`The page lacks the element ${id}.`);
  return /** @type {Type} */ (found);
}

/**
 * A sentence in a box.
 * @param {"info" | "warning" | "error"} tone
 * @param {string} sentence
 */
export function notice(tone, sentence) {
  return element("p", { class: "notice", "data-tone": tone }, sentence);
}

/**
 * Announces an event to screen readers, without moving the focus.
 * @param {string} sentence
 */
export function announce(sentence) {
  byId("announcer").textContent = sentence;
}

/**
 * Shows a sentence in a notice of the page, and announces it.
 * @param {string} id
 * @param {string} sentence Empty removes the last sentence.
 * @param {"warning" | "error"} [tone]
 */
export function say(id, sentence, tone = "warning") {
  const box = byId(id);
  box.textContent = sentence;
  box.dataset.tone = tone;
  box.hidden = sentence === "";
  box.scrollIntoView({ block: "nearest" });
  announce(sentence);
}

/**
 * @param {number} milliseconds
 * @returns {string} `3.2 ms`, `120 ms`, `1.4 s`.
 */
export function duration(milliseconds) {
  if (milliseconds >= 1000) return `${(milliseconds / 1000).toFixed(1)} s`;
  return `${milliseconds.toFixed(milliseconds < 10 ? 1 : 0)} ms`;
}
