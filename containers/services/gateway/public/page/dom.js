/** Elements, made and found. Text always becomes text nodes: nothing here parses markup. */

/**
 * Makes an element.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Readonly<Record<string, string>>} [attributes]
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/**
 * The element with this id.
 * @template {HTMLElement} Type
 * @param {string} id
 * @param {new () => Type} type
 * @returns {Type}
 * @throws {Error} When the page has none of that type.
 */
export function byId(id, type) {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new Error(`the page has no ${type.name} with the id ${id}`);
  return found;
}

/**
 * A sentence in a box.
 * @param {"info" | "warning" | "error"} tone
 * @param {...(Node | string)} content
 * @returns {HTMLElement}
 */
export function notice(tone, ...content) {
  return element("p", { class: "notice", "data-tone": tone }, ...content);
}

/**
 * Tells screen readers what happened, without moving anybody's focus.
 * @param {string} sentence
 */
export function announce(sentence) {
  byId("announcer", HTMLParagraphElement).textContent = sentence;
}

/**
 * @param {number} milliseconds
 * @returns {string} `3.2 ms`, `120 ms`, `1.4 s`.
 */
export function duration(milliseconds) {
  if (milliseconds >= 1000) return `${(milliseconds / 1000).toFixed(1)} s`;
  return `${milliseconds < 10 ? milliseconds.toFixed(1) : Math.round(milliseconds)} ms`;
}
