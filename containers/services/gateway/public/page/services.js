/** The list of services with their states: asked for again and again while somebody looks. */
import { get } from "./api.js";
import { announce, byId, duration, element } from "./dom.js";

/** @typedef {import("./capabilities.js").Service} Service */

const CALM_MILLISECONDS = 5000;
/** While something starts or is away, people wait for it. */
const WAITING_MILLISECONDS = 2000;
/** The gateway gives its probes one second. */
const LONGEST_MILLISECONDS = 5000;

/**
 * Starts watching. Pauses while the page is hidden.
 * @param {(services: readonly Service[]) => void} onServices Told after every look at which the gateway answered.
 */
export function watchServices(onServices) {
  /** @type {number | undefined} */
  let timer;
  /** @type {AbortController | undefined} */
  let running;
  /** @type {readonly Service[]} */
  let known = [];

  async function look() {
    const attempt = new AbortController();
    running = attempt;
    const signal = AbortSignal.any([attempt.signal, AbortSignal.timeout(LONGEST_MILLISECONDS)]);
    /** @type {number | undefined} */
    let roundTrip;
    try {
      // Apart from each other: /status takes as long as the slowest of its probes.
      [roundTrip, known] = await Promise.all([
        roundTripOf(signal),
        get("status", signal).then((response) => response.json()),
      ]);
    } catch {
      roundTrip = undefined;
    }
    if (attempt.signal.aborted) return;
    show(known, roundTrip);
    if (roundTrip !== undefined) onServices(known);
    const isCalm = roundTrip !== undefined && known.every(({ state }) => state === "ready");
    timer = setTimeout(look, isCalm ? CALM_MILLISECONDS : WAITING_MILLISECONDS);
  }

  function follow() {
    clearTimeout(timer);
    running?.abort();
    if (!document.hidden) look();
  }
  document.addEventListener("visibilitychange", follow);
  follow();
}

/**
 * @param {AbortSignal} signal
 * @returns {Promise<number>} Milliseconds to the gateway and back.
 */
async function roundTripOf(signal) {
  const started = performance.now();
  await get("healthz", signal);
  return performance.now() - started;
}

/**
 * @param {readonly Service[]} services The last that were seen.
 * @param {number | undefined} roundTrip Milliseconds; undefined where the gateway does not answer.
 */
function show(services, roundTrip) {
  const isHere = roundTrip !== undefined;
  /** @type {Service} */
  const gateway = {
    name: "gateway",
    kind: "gateway",
    state: isHere ? "ready" : "away",
    latencyMilliseconds: roundTrip ?? null,
    detail: isHere ? "to this browser and back" : "does not answer this browser; it is asked again every 2 s",
  };
  const list = byId("service-list", HTMLUListElement);
  list.replaceChildren(serviceRow(gateway), ...services.map(serviceRow));
  list.toggleAttribute("data-stale", !isHere);
  byId("services-note", HTMLParagraphElement).textContent = isHere
    ? "Latency of a probe, brought up to date every few seconds."
    : "The rows below the gateway are what was seen last.";
  const waiting = [gateway, ...services].filter(({ state }) => state !== "ready");
  showOverall(isHere ? waiting : [gateway], services.length + 1);
}

/**
 * @param {Service} service
 * @returns {HTMLLIElement}
 */
function serviceRow({ name, state, latencyMilliseconds, detail }) {
  const latency = latencyMilliseconds === null ? [] : [duration(latencyMilliseconds)];
  return element(
    "li",
    { "data-state": state },
    element("span", { class: "service-name" }, name),
    element("span", { class: "service-state" }, [state, ...latency].join(" · ")),
    element("span", { class: "service-detail" }, detail),
  );
}

/**
 * The one line at the top; screen readers hear it when it changes.
 * @param {readonly Service[]} waiting
 * @param {number} count
 */
function showOverall(waiting, count) {
  const overall = byId("overall", HTMLAnchorElement);
  const [first] = waiting;
  const words =
    first === undefined
      ? `All ${count} services ready`
      : waiting.length > 1
        ? `${waiting.length} of ${count} services not ready`
        : `${first.name} is ${first.state}`;
  if (overall.textContent === words) return;
  const isFirst = overall.dataset.state === "unknown";
  overall.textContent = words;
  overall.dataset.state = waiting.some(({ state }) => state === "away") ? "away" : (first?.state ?? "ready");
  if (!isFirst || first !== undefined) announce(`${words}.`);
}
