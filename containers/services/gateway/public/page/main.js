/** The page: a question, the documents that fit it, an answer that stands on them. */
import { clearAnswer, showAnswer } from "./answer.js";
import { ApiFailure, apiKey, get } from "./api.js";
import { answerCall, exampleCall, matchCall } from "./calls.js";
import { capabilitiesOf } from "./capabilities.js";
import { curlLine, downloadLine } from "./curl.js";
import { announce, byId, element, notice } from "./dom.js";
import { exampleOffer } from "./example.js";
import { imageInput } from "./image-input.js";
import { keyForm } from "./key.js";
import { clearMatches, showMatches } from "./matches.js";
import { Pictures } from "./pictures.js";
import { showRequests } from "./requests.js";
import { watchServices } from "./services.js";

/** Less of the results than this at the lower end of the window is too little to notice. */
const LEAST_SEEN_PIXELS = 240;

const form = byId("ask", HTMLFormElement);
const question = byId("question", HTMLTextAreaElement);
const submit = byId("submit", HTMLButtonElement);
const findOnly = byId("find-only", HTMLButtonElement);
const stop = byId("stop", HTMLButtonElement);
const topK = byId("top-k", HTMLSelectElement);
const model = byId("model", HTMLSelectElement);
const via = byId("via", HTMLSelectElement);

/** @type {import("./capabilities.js").Capabilities | undefined} */
let abilities;
/** Whether the collection was seen empty; undefined before it was looked at. @type {boolean | undefined} */
let isEmpty;
/** What is to be said of the last input. @type {{ tone: "error" | "info", sentence: string } | undefined} */
let inputRemark;
/** The question that is being answered. @type {AbortController | undefined} */
let running;
/** Ends with the question that was asked last. */
let finished = Promise.resolve();
/** What to do again once there is a key. @type {(() => void) | undefined} */
let afterKey;
let pictures = new Pictures();

const image = imageInput((problem) => {
  remark("error", problem);
});

const example = exampleOffer((chosen) => {
  question.value = chosen.question;
  image.put(chosen.image);
  form.requestSubmit();
});

const key = keyForm({
  onKey() {
    const again = afterKey ?? (() => undefined);
    afterKey = undefined;
    lookForDocuments().then(again);
  },
  onForget() {
    isEmpty = undefined;
    lookForDocuments();
  },
});

watchServices((services) => {
  abilities = capabilitiesOf(services);
  showAbilities(abilities);
  // An empty collection is looked at again, so that the page follows a seeding.
  if (abilities.canFind && isEmpty !== false && running === undefined && !key.isAsking()) lookForDocuments();
});

form.addEventListener("submit", (event) => {
  event.preventDefault();
  ask(abilities?.chatModels.length !== 0);
});
findOnly.addEventListener("click", () => ask(false));
stop.addEventListener("click", () => running?.abort());
question.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  form.requestSubmit();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") running?.abort();
});

/** @param {import("./capabilities.js").Capabilities} known */
function showAbilities({ canFind, canFindImages, canDescribe, chatModels }) {
  const isNew = form.hidden && canFind;
  form.hidden = !canFind;
  byId("title", HTMLHeadingElement).textContent = canFind
    ? "Ask your documents"
    : "This gateway serves models";
  // On a touch screen it would bring up a keyboard over the page.
  const hasKeyboard = matchMedia("(hover: hover) and (pointer: fine)").matches;
  if (isNew && hasKeyboard && document.activeElement === document.body) question.focus();
  image.enable(canFindImages);
  example.enable(canFindImages);
  submit.textContent = chatModels.length > 0 ? "Ask" : "Find";
  findOnly.hidden = chatModels.length === 0;
  byId("via-option", HTMLLabelElement).hidden = !canDescribe;
  byId("model-option", HTMLLabelElement).hidden = chatModels.length < 2;
  const names = ["", ...chatModels];
  if ([...model.options].map(({ value }) => value).join() !== names.join()) {
    model.replaceChildren(
      ...names.map((name) => element("option", { value: name }, name || "as configured")),
    );
  }
  if (!canFind) showExample(chatModels[0]);
  showNotices();
}

/** What a gateway without documents is good for. @param {string | undefined} chatModel */
function showExample(chatModel) {
  if (chatModel === undefined) return showRequests([]);
  showRequests([{ title: `Chat with ${chatModel}`, line: lineOf(exampleCall(chatModel), false) }]);
}

function showNotices() {
  const boxes = [];
  if (inputRemark !== undefined) boxes.push(notice(inputRemark.tone, inputRemark.sentence));
  for (const sentence of abilities?.troubles ?? []) boxes.push(notice("warning", sentence));
  if (isEmpty === true && abilities?.canFind) {
    boxes.push(
      notice(
        "info",
        "There are no documents yet. ",
        element("code", {}, "npm run seed"),
        " loads the sample collection; ",
        element("code", {}, "npm run seed -- --from DIR"),
        " loads a folder of your own.",
      ),
    );
  }
  for (const sentence of abilities?.missing ?? []) boxes.push(notice("info", sentence));
  const shown = byId("notices", HTMLDivElement);
  // A box that stays is left alone: a reader may be selecting its words.
  if (shown.textContent !== boxes.map(({ textContent }) => textContent).join(""))
    shown.replaceChildren(...boxes);
}

/**
 * @param {"error" | "info"} tone
 * @param {string | undefined} sentence None takes the last one away.
 */
function remark(tone, sentence) {
  inputRemark = sentence === undefined ? undefined : { tone, sentence };
  if (sentence !== undefined) announce(sentence);
  showNotices();
}

/** Whether there are documents at all, and whether a key is needed to see them. */
async function lookForDocuments() {
  try {
    const response = await get("v1/documents?limit=1", AbortSignal.timeout(5000));
    isEmpty = (await response.json()).documents.length === 0;
    key.accepted();
    if (!isEmpty) await example.look();
  } catch (error) {
    // Anything but a missing key is told by the list of services.
    if (error instanceof ApiFailure && error.status === 401) key.ask(error.message);
  }
  showNotices();
}

/** @param {boolean} wantsAnswer Beside the matches. */
function ask(wantsAnswer) {
  const words = question.value.trim();
  const file = image.current();
  if (words === "" && file === undefined) {
    remark("error", "Write a question or add an image first.");
    question.focus();
    return;
  }
  const isWordless = wantsAnswer && words === "";
  remark("info", isWordless ? "Add a question to get an answer in words as well." : undefined);
  running?.abort();
  const current = new AbortController();
  running = current;
  // The one before has to be over, so that it writes no more into what is shown now.
  finished = finished.then(async () => {
    if (current.signal.aborted) return;
    setBusy(true);
    const problems = await run(words, file, wantsAnswer, current.signal);
    if (running !== current) return;
    running = undefined;
    setBusy(false);
    const refused = problems.find((problem) => problem?.status === 401);
    if (refused === undefined) return;
    afterKey = () => ask(wantsAnswer);
    clearAnswer();
    clearMatches();
    key.ask(refused.message);
  });
}

/**
 * Matches and answer at the same time, each shown as it comes.
 * @param {string} words
 * @param {File | undefined} file
 * @param {boolean} wantsAnswer
 * @param {AbortSignal} signal
 * @returns {Promise<(ApiFailure | undefined)[]>} What went wrong; it is shown already.
 */
function run(words, file, wantsAnswer, signal) {
  pictures.release();
  pictures = new Pictures();
  clearAnswer();
  const options = { topK: Number(topK.value), model: model.value, isDescribed: via.value === "describe" };
  const match = matchCall(words, file, options);
  const answer = wantsAnswer && words !== "" ? answerCall(words, file, options) : undefined;
  const requests = [{ title: "Find the matches", line: lineOf(match, false) }];
  const picturePath = example.pathOf(file);
  if (file !== undefined && picturePath !== undefined) {
    const line = downloadLine(picturePath, file.name, lineContext());
    requests.unshift({ title: "Fetch the example's picture", line });
  }
  if (answer) requests.push({ title: "Answer from them, as it is written", line: lineOf(answer, true) });
  showRequests(requests);
  const tell = (/** @type {string} */ place) => (/** @type {unknown} */ error) =>
    tellProblem(error, place, signal);
  const shown = Promise.all([
    showMatches(match, pictures, signal).then(() => undefined, tell("matches-body")),
    answer && showAnswer(answer, pictures, signal).then(() => undefined, tell("answer-problem")),
  ]);
  bringIntoView(byId(answer ? "answer" : "matches", HTMLElement));
  return shown;
}

/** Where the form fills the screen, as on a phone, nobody would see that anything has begun. @param {HTMLElement} section */
function bringIntoView(section) {
  if (innerHeight - section.getBoundingClientRect().top < LEAST_SEEN_PIXELS) section.scrollIntoView();
}

/**
 * @param {unknown} error
 * @param {string} place Id of where it is shown.
 * @param {AbortSignal} signal
 * @returns {ApiFailure | undefined} Undefined where the reader has stopped it.
 */
function tellProblem(error, place, signal) {
  const shown = byId(place, HTMLDivElement);
  if (signal.aborted) {
    shown.replaceChildren(notice("info", "Stopped."));
    return undefined;
  }
  const failure =
    error instanceof ApiFailure
      ? error
      : new ApiFailure(`This page failed: ${String(error)}. Load it again.`, 0);
  shown.replaceChildren(notice("error", failure.message));
  announce(failure.message);
  return failure;
}

/** @param {boolean} isBusy */
function setBusy(isBusy) {
  form.ariaBusy = String(isBusy);
  // Whoever has just stopped by keyboard goes on from there.
  if (!isBusy && document.activeElement === stop) submit.focus();
  stop.hidden = !isBusy;
}

/**
 * @param {import("./api.js").Call} call
 * @param {boolean} streams
 */
function lineOf(call, streams) {
  return curlLine(call, { ...lineContext(), streams });
}

function lineContext() {
  return { base: document.baseURI, hasKey: apiKey() !== null };
}
