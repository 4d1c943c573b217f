/** The API key: asked for when the gateway wants one, kept by this tab only. */
import { apiKey, keepApiKey } from "./api.js";
import { announce, byId } from "./dom.js";

/**
 * @param {{ onKey(): void, onForget(): void }} listeners `onKey`: a key was given; what failed may be tried again.
 * @returns {{ ask(reason: string): void, isAsking(): boolean, accepted(): void }} `reason`: the gateway's own sentence.
 */
export function keyForm({ onKey, onForget }) {
  const form = byId("key-form", HTMLFormElement);
  const input = byId("key", HTMLInputElement);
  const reason = byId("key-reason", HTMLParagraphElement);
  const forget = byId("forget-key", HTMLButtonElement);
  forget.hidden = apiKey() === null;

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const key = input.value.trim();
    if (key === "") return;
    keepApiKey(key);
    onKey();
  });
  forget.addEventListener("click", () => {
    keepApiKey(null);
    forget.hidden = true;
    announce("The key is forgotten.");
    onForget();
  });

  return {
    ask(sentence) {
      keepApiKey(null);
      forget.hidden = true;
      reason.textContent = sentence;
      const isNew = form.hidden;
      form.hidden = false;
      announce(sentence);
      input.select();
      if (isNew || document.activeElement === document.body) input.focus();
    },
    isAsking: () => !form.hidden,
    accepted() {
      forget.hidden = apiKey() === null;
      if (form.hidden) return;
      form.hidden = true;
      input.value = "";
      byId("question", HTMLTextAreaElement).focus();
    },
  };
}
