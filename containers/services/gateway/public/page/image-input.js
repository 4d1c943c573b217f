/** One image from a drop, the clipboard or a file dialog. */
import { announce, byId } from "./dom.js";

/**
 * @param {(problem: string | undefined) => void} onChange Told of every new image, its removal, and why a file was not taken.
 * @returns {{ current(): File | undefined, put(file: File): void, enable(isEnabled: boolean): void }}
 */
export function imageInput(onChange) {
  const part = byId("image-part", HTMLDivElement);
  const drop = byId("drop", HTMLLabelElement);
  const input = byId("file", HTMLInputElement);
  const preview = byId("preview", HTMLImageElement);
  const title = byId("drop-title", HTMLSpanElement);
  const hint = byId("drop-hint", HTMLSpanElement);
  const remove = byId("remove-image", HTMLButtonElement);
  const emptyTitle = title.textContent ?? "";
  const emptyHint = hint.textContent ?? "";
  /** @type {File | undefined} */
  let current;
  let isEnabled = true;

  /** @param {File | undefined} file */
  function set(file) {
    if (file !== undefined && !file.type.startsWith("image/")) {
      onChange(`${file.name || "What was dropped"} is no image; give a JPEG, PNG or WebP file.`);
      return;
    }
    current = file;
    URL.revokeObjectURL(preview.src);
    if (file === undefined) preview.removeAttribute("src");
    else preview.src = URL.createObjectURL(file);
    preview.hidden = file === undefined;
    remove.hidden = file === undefined;
    drop.toggleAttribute("data-filled", file !== undefined);
    title.textContent = file?.name ?? emptyTitle;
    hint.textContent = file === undefined ? emptyHint : `${bytes(file.size)}; choose another to replace it`;
    announce(file === undefined ? "Image removed." : `Image ${file.name} added.`);
    onChange(undefined);
  }

  /** @param {DataTransfer | null} transfer */
  const holdsFiles = (transfer) => isEnabled && (transfer?.types.includes("Files") ?? false);
  /** @param {FileList | undefined} files */
  const take = (files) => {
    const all = [...(files ?? [])];
    const file = all.find(({ type }) => type.startsWith("image/")) ?? all[0];
    if (file) set(file);
  };

  input.addEventListener("change", () => take(input.files ?? undefined));
  remove.addEventListener("click", () => {
    input.value = "";
    set(undefined);
    input.focus();
  });
  // A picture that the browser can't show, such as HEIC, is still one that may be sent.
  preview.addEventListener("error", () => {
    preview.hidden = true;
  });

  // Anywhere on the page: a file that misses the zone would otherwise replace the page.
  let depth = 0;
  const mark = () => drop.toggleAttribute("data-over", depth > 0);
  document.addEventListener("dragenter", (event) => {
    if (!holdsFiles(event.dataTransfer)) return;
    depth += 1;
    mark();
  });
  document.addEventListener("dragleave", (event) => {
    if (!holdsFiles(event.dataTransfer)) return;
    depth = Math.max(0, depth - 1);
    mark();
  });
  document.addEventListener("dragover", (event) => {
    if (holdsFiles(event.dataTransfer)) event.preventDefault();
  });
  document.addEventListener("drop", (event) => {
    if (!holdsFiles(event.dataTransfer)) return;
    event.preventDefault();
    depth = 0;
    mark();
    take(event.dataTransfer?.files);
  });
  document.addEventListener("paste", (event) => {
    // Office programs put a picture of copied text beside it; then the text is meant.
    if (!holdsFiles(event.clipboardData) || event.clipboardData?.types.includes("text/plain")) return;
    event.preventDefault();
    take(event.clipboardData?.files);
  });

  return {
    current: () => (isEnabled ? current : undefined),
    put: set,
    enable(wanted) {
      isEnabled = wanted;
      part.hidden = !wanted;
    },
  };
}

/**
 * @param {number} count
 * @returns {string}
 */
function bytes(count) {
  if (count < 1024) return `${count} bytes`;
  if (count < 1024 ** 2) return `${Math.round(count / 1024)} KiB`;
  return `${(count / 1024 ** 2).toFixed(1)} MiB`;
}
