/** The page's form: a question, an image, an API key, and its requests to the gateway. */
import { setUpAdding } from "./add.js";
import { ApiFailure, apiKey, KEY_ENTRY, request } from "./api.js";
import { announce, byId, notice, say } from "./dom.js";
import { pictureField } from "./pictures.js";
import { addCommand, clearResults, showAnswer, showMatches } from "./results.js";
import { capabilitiesOf, watchServices } from "./services.js";

const form = byId("ask", HTMLFormElement);
const question = byId("question", HTMLTextAreaElement);
const submit = byId("submit");
const stop = byId("stop");
const model = byId("model", HTMLSelectElement);
const keyForm = byId("key-form");
const keyInput = byId("key", HTMLInputElement);
const image = pictureField(byId("image"), (problem) => say("message", problem));

let abilities = capabilitiesOf([]);
/** Undefined before the collection was looked at. @type {boolean | undefined} */
let hasDocuments;
/** The question that comes with the sample collection. @type {{ words: string, image: File, path: string } | undefined} */
let example;
/** The question that is being answered. @type {AbortController | undefined} */
let running;
/** Repeats the request that was refused without a valid key. @type {(() => void) | undefined} */
let sendAgain;

watchServices((services) => {
  abilities = capabilitiesOf(services);
  showAbilities();
  // An empty collection is checked again, so that the page follows a seeding.
  if (abilities.canFind && !hasDocuments && !running && keyForm.hidden) lookForDocuments();
});

function showAbilities() {
  const { canFind, canFindImages, canDescribe, chatModels, notices } = abilities;
  const isNew = form.hidden && canFind;
  for (const part of [form, byId("add")]) part.hidden = !canFind;
  byId("title").textContent = canFind ? "Ask your documents" : "This gateway serves models";
  if (isNew && document.activeElement === document.body) question.focus();
  for (const id of ["image", "add-image"]) byId(id).hidden = !canFindImages;
  byId("example").hidden = !canFindImages || example === undefined;
  submit.textContent = chatModels.length > 0 ? "Ask" : "Find";
  byId("find-only").hidden = chatModels.length === 0;
  byId("via-option").hidden = !canDescribe;
  byId("model-option").hidden = chatModels.length < 2;
  // The first option is the gateway's own choice.
  if (model.length !== chatModels.length + 1) {
    model.length = 1;
    model.append(...chatModels.map((name) => new Option(name)));
  }
  byId("no-documents").hidden = hasDocuments !== false || !canFind;
  const shown = byId("states");
  // An unchanged sentence is not replaced: a reader may be selecting its text.
  if (shown.textContent !== notices.map(({ textContent }) => textContent).join(""))
    shown.replaceChildren(...notices);
  const [chatModel] = chatModels;
  if (!canFind && chatModel && byId("requests").hidden) {
    const messages = [{ role: "user", content: "What is the capital of France?" }];
    const call = { path: "v1/chat/completions", fields: { model: chatModel, messages } };
    addCommand(`Chat with ${chatModel}`, call);
  }
}

/** Whether there are documents at all, and whether a key is needed to see them. */
async function lookForDocuments() {
  try {
    const response = await request({ path: "v1/documents?limit=1" });
    const had = hasDocuments;
    hasDocuments = (await response.json()).documents.length > 0;
    if (had === undefined && !hasDocuments) byId("add", HTMLDetailsElement).open = true;
    if (!keyForm.hidden) {
      keyForm.hidden = true;
      keyInput.value = "";
      question.focus();
    }
    if (hasDocuments && !example) await findExample();
  } catch (error) {
    // The list of services shows any other problem than a missing key.
    if (error instanceof ApiFailure && error.status === 401) askForKey(error.message);
  }
  showAbilities();
}

/** Finds the question of the sample collection, if the collection is loaded. */
async function findExample() {
  const list = await request({ path: "v1/documents?after=sample-&limit=50" });
  for (const { id, image, metadata } of (await list.json()).documents) {
    if (!id.startsWith("sample-") || image === null || typeof metadata.question !== "string") continue;
    const path = `v1/documents/${encodeURIComponent(id)}/image`;
    const picture = await (await request({ path })).blob();
    byId("example-picture", HTMLImageElement).src = URL.createObjectURL(picture);
    byId("example-question").textContent = metadata.question;
    example = {
      words: metadata.question,
      path,
      image: new File([picture], `${id}.jpg`, { type: picture.type }),
    };
    return;
  }
}

byId("example").addEventListener("click", () => {
  question.value = example?.words ?? "";
  image.set(example?.image);
  form.requestSubmit();
});

/** @param {string | null} key Null forgets it. */
function setKey(key) {
  if (key === null) sessionStorage.removeItem(KEY_ENTRY);
  else sessionStorage.setItem(KEY_ENTRY, key);
  byId("forget-key").hidden = key === null;
}
setKey(apiKey());

/**
 * @param {string} reason The gateway's own sentence.
 * @param {() => void} [again] What to do with the key.
 */
function askForKey(reason, again) {
  sendAgain = again ?? sendAgain;
  setKey(null);
  byId("key-reason").textContent = reason;
  announce(reason);
  keyForm.hidden = false;
  keyInput.focus();
  keyInput.select();
}

keyForm.addEventListener("submit", async (event) => {
  event.preventDefault();
  setKey(keyInput.value.trim());
  await lookForDocuments();
  if (!keyForm.hidden) return;
  sendAgain?.();
  sendAgain = undefined;
});
byId("forget-key").addEventListener("click", () => {
  setKey(null);
  announce("The key is forgotten.");
  lookForDocuments();
});

setUpAdding({
  onChanged: lookForDocuments,
  onKeyNeeded: askForKey,
  find: (words, picture) => {
    question.value = words;
    image.set(picture);
    ask(false);
  },
});

form.addEventListener("submit", (event) => {
  event.preventDefault();
  ask(abilities.chatModels.length > 0);
});
byId("find-only").addEventListener("click", () => ask(false));
stop.addEventListener("click", () => running?.abort());
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") running?.abort();
});
question.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  form.requestSubmit();
});

/**
 * Finds matches and, if it is wanted, an answer at the same time. Takes the place of a question that is running.
 * @param {boolean} wantsAnswer
 */
async function ask(wantsAnswer) {
  const words = question.value.trim();
  const { file } = image;
  if (words === "" && !file) {
    say("message", "Write a question or add an image first.");
    question.focus();
    return;
  }
  const hasAnswer = wantsAnswer && words !== "";
  say("message", wantsAnswer && !hasAnswer ? "Add a question to get an answer as well." : "");
  running?.abort();
  const current = new AbortController();
  const { signal } = current;
  running = current;
  stop.hidden = false;

  const topK = Number(byId("top-k", HTMLSelectElement).value);
  const isDescribed = file !== undefined && byId("via", HTMLSelectElement).value === "describe";
  // The description takes the place of the words.
  const compared = isDescribed ? { via: "describe" } : words !== "" && { text: words };
  const chosen = model.value !== "" && { model: model.value };
  const match = { path: "v1/match", fields: { ...compared, topK }, image: file };
  const answer = {
    path: "v1/answer",
    fields: { question: words, topK, ...chosen, stream: true },
    image: file,
  };
  clearResults();
  if (file && file === example?.image)
    addCommand("Download the example's picture", { path: example.path, saveAs: file.name });
  const told = new Set();
  const shown = [showMatches(match, signal).catch(tellFailure("matches-body", told, signal))];
  if (hasAnswer) shown.push(showAnswer(answer, signal).catch(tellFailure("answer-problem", told, signal)));
  // On a phone the form fills the screen and would hide the start of the results.
  byId(hasAnswer ? "answer" : "matches").scrollIntoView({ block: "nearest" });

  const failures = await Promise.all(shown);
  if (running !== current) return;
  running = undefined;
  // Keeps the keyboard's place after a stop.
  if (document.activeElement === stop) submit.focus();
  stop.hidden = true;
  const refused = failures.find((failure) => failure?.status === 401);
  if (refused === undefined) return;
  clearResults();
  askForKey(refused.message, () => ask(wantsAnswer));
}

/** Failures that are the question's or the image's own: of their form, and no other place. */
const REFUSALS = [400, 413, 415, 422];

/**
 * @param {string} place Id of where in the results a failure is shown.
 * @param {Set<string>} told Failures of this question that are shown; none is shown twice.
 * @param {AbortSignal} signal
 */
function tellFailure(place, told, signal) {
  const shown = byId(place);
  return (/** @type {ApiFailure} */ error) => {
    const isStopped = signal.aborted;
    const sentence = isStopped ? "Stopped." : error.message;
    const isOfForm = !isStopped && REFUSALS.includes(error.status);
    if (isOfForm || (!isStopped && told.has(sentence))) shown.closest("section")?.setAttribute("hidden", "");
    else shown.replaceChildren(notice(isStopped ? "info" : "error", sentence));
    if (isOfForm) say("message", sentence, "error");
    else announce(sentence);
    told.add(sentence);
    return error;
  };
}
