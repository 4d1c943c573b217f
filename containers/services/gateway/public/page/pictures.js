/** Fields for a picture: chosen in the file dialog, dropped on the page, or pasted. */
import { announce, element } from "./dom.js";

/**
 * @typedef {object} PictureField
 * @property {HTMLFormElement | null} form
 * @property {HTMLElement} drop
 * @property {HTMLInputElement} input
 * @property {File | undefined} file The picture; undefined while the field is hidden, too.
 * @property {(file: File | undefined) => void} set Undefined removes the picture.
 */

/** All of the page; the first takes what is dropped or pasted outside of their forms. @type {PictureField[]} */
const fields = [];

/** @param {EventTarget | null} target The event's. */
function fieldOf(target) {
  return fields.find(({ form }) => target instanceof Node && form?.contains(target)) ?? fields[0];
}

/**
 * Fills a container with a field for one picture.
 * @param {HTMLElement} container In a form. A hidden field accepts no file.
 * @param {(problem: string) => void} onProblem Called with the reason of a refusal; else empty.
 * @returns {PictureField}
 */
export function pictureField(container, onProblem) {
  const hintId = `${container.id}-hint`;
  const input = element("input", {
    id: `${container.id}-file`,
    class: "unseen",
    type: "file",
    accept: "image/*",
    "aria-describedby": hintId,
  });
  const preview = element("img", { alt: "", hidden: "" });
  const title = element("span", { class: "drop-title" }, "Add an image");
  const hint = element("span", { class: "quiet", id: hintId }, "Drop, paste or choose a file");
  const drop = element("label", { class: "drop" }, input, preview, element("span", {}, title, hint));
  const remove = element("button", { class: "link", type: "button", hidden: "" }, "Remove image");
  container.append(drop, remove);
  /** @type {File | undefined} */
  let chosen;

  const field = {
    form: container.closest("form"),
    drop,
    input,
    get file() {
      return container.hidden ? undefined : chosen;
    },
    set(/** @type {File | undefined} */ file) {
      if (container.hidden) return;
      if (file && !file.type.startsWith("image/")) {
        onProblem(`Unsupported image format: ${file.name}. Choose a JPEG, PNG or WebP file.`);
        return;
      }
      chosen = file;
      if (file === undefined) input.value = "";
      URL.revokeObjectURL(preview.src);
      preview.src = file === undefined ? "" : URL.createObjectURL(file);
      for (const part of [preview, remove]) part.hidden = file === undefined;
      hint.hidden = file !== undefined;
      title.textContent = file?.name ?? "Add an image";
      drop.toggleAttribute("data-filled", file !== undefined);
      onProblem("");
      announce(file === undefined ? "Image removed." : `Image ${file.name} added.`);
    },
  };
  input.addEventListener("change", () => field.set(input.files?.[0]));
  remove.addEventListener("click", () => {
    field.set(undefined);
    input.focus();
  });
  fields.push(field);
  return field;
}

document.addEventListener("paste", ({ target, clipboardData }) => {
  const file = clipboardData?.files[0];
  // Office programs put a picture of copied text beside it; then the text is meant.
  if (file && !clipboardData.types.includes("text/plain")) fieldOf(target)?.set(file);
});

/** The innermost element under a dragged file. @type {EventTarget | null} */
let entered = null;
// Anywhere on the page: a file that misses the zone would otherwise replace the page.
for (const type of /** @type {const} */ (["dragenter", "dragleave", "dragover", "drop"])) {
  document.addEventListener(type, (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    if (type === "dragenter") entered = event.target;
    if (type === "drop" || (type === "dragleave" && event.target === entered)) entered = null;
    const over = entered && fieldOf(entered);
    for (const { drop } of fields) drop.toggleAttribute("data-over", drop === over?.drop);
    if (type === "drop") fieldOf(event.target)?.set(event.dataTransfer.files[0]);
  });
}
