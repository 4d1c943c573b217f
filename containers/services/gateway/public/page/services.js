/** The services behind the gateway: their states, polled while the page is visible, and the page's features. */
import { request } from "./api.js";
import { announce, byId, duration, element, notice } from "./dom.js";

/**
 * A row of GET /status.
 * @typedef {{ name: string, kind?: string, state: "ready" | "starting" | "unavailable", latencyMilliseconds: number | null, detail: string }} Service
 */

const INTERVAL_MILLISECONDS = 3000;

/**
 * Shows the services, again and again. Pauses while the page is hidden.
 * @param {(services: readonly Service[]) => void} onServices Called after each answer of the gateway.
 */
export function watchServices(onServices) {
  let timer = 0;
  async function look() {
    if (document.hidden) return;
    const services = await fetchServices();
    showServices(services);
    if (services[0]?.state === "ready") onServices(services);
    clearTimeout(timer);
    timer = window.setTimeout(look, INTERVAL_MILLISECONDS);
  }
  document.addEventListener("visibilitychange", look);
  look();
}

/** @returns {Promise<Service[]>} The gateway first; only the gateway when it does not answer. */
async function fetchServices() {
  const name = "gateway";
  const started = performance.now();
  try {
    // Apart from each other: /status takes as long as the slowest of its probes.
    const [latencyMilliseconds, status] = await Promise.all([
      request({ path: "healthz" }).then(() => performance.now() - started),
      request({ path: "status" }),
    ]);
    const detail = "round trip from this browser";
    return [{ name, state: "ready", latencyMilliseconds, detail }, ...(await status.json())];
  } catch {
    const detail = "does not answer this browser; retried every 3 s";
    return [{ name, state: "unavailable", latencyMilliseconds: null, detail }];
  }
}

/** @param {readonly Service[]} services */
function showServices(services) {
  byId("service-list").replaceChildren(...services.map(serviceRow));
  const waiting = services.filter(({ state }) => state !== "ready");
  const [first] = waiting;
  let words = `${waiting.length} of ${services.length} services not ready`;
  if (first === undefined) words = `All ${services.length} services ready`;
  else if (waiting.length === 1) words = `${first.name} is ${first.state}`;
  const overall = byId("overall");
  if (overall.textContent === words) return;
  announce(`${words}.`);
  overall.textContent = words;
  overall.dataset.state = (waiting.find(({ state }) => state === "unavailable") ?? first)?.state ?? "ready";
}

/** @param {Service} service */
function serviceRow({ name, state, latencyMilliseconds, detail }) {
  const latency = latencyMilliseconds === null ? "" : ` · ${duration(latencyMilliseconds)}`;
  return element(
    "li",
    { "data-state": state },
    element("span", { class: "service-name" }, name),
    element("span", { class: "service-state" }, state + latency),
    element("span", { class: "service-detail" }, detail),
  );
}

/**
 * Features of the page on this gateway, and a notice for each that is unavailable.
 * @param {readonly Service[]} services
 */
export function capabilitiesOf(services) {
  const has = (/** @type {string} */ kind) => services.some((service) => service.kind === kind);
  const hasDatabases = has("document-database") && has("vector-database");
  const canFind = hasDatabases && has("text-encoder");
  const canFindImages = canFind && has("image-encoder");
  /** Those that can answer; the gateway's first choice first. */
  const chatModels = services
    .filter(({ kind }) => kind === "language-model" || kind === "vision-language-model")
    .map(({ name }) => name);
  const notices = services
    .filter(({ state }) => state !== "ready")
    .map(({ name, kind = "", state, detail }) => {
      const consequence = kind.endsWith("-model")
        ? "It does not answer questions"
        : "Searches that need it fail";
      return notice("warning", `${name} is ${state}: ${detail}. ${consequence} until it is ready.`);
    });
  const lacks = (/** @type {string} */ sentence) => notices.push(notice("info", sentence));
  if (!hasDatabases) {
    lacks("Search is unavailable: no databases are configured for this gateway.");
    if (services.length > 1) lacks("Its models are served under /v1, with the OpenAI API.");
  } else if (!canFind) {
    lacks("Search is unavailable: no text encoder is configured for this gateway.");
  } else {
    if (!canFindImages)
      lacks("Search by image is unavailable: no image encoder is configured for this gateway.");
    if (chatModels.length === 0)
      lacks("Answers are unavailable: no chat model is configured for this gateway.");
  }
  return {
    canFind,
    canFindImages,
    canDescribe: canFind && has("vision-language-model"),
    chatModels,
    notices,
  };
}
