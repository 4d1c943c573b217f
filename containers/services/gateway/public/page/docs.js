/** The API's page: the operations of openapi.json with their fields, and a form for each that sends it. */
import { ApiFailure, apiKey, KEY_ENTRY, request } from "./api.js";
import { announce, byId, duration, element, notice } from "./dom.js";

/**
 * As far as the gateway's own description uses JSON Schema.
 * @typedef {object} Schema
 * @property {string | readonly string[]} [type]
 * @property {unknown} [const]
 * @property {readonly unknown[]} [enum]
 * @property {readonly Schema[]} [anyOf]
 * @property {readonly Schema[]} [oneOf]
 * @property {Schema} [items]
 * @property {Readonly<Record<string, Schema>>} [properties]
 * @property {readonly string[]} [required]
 * @property {string} [description]
 * @property {unknown} [default]
 * @property {readonly unknown[]} [examples]
 */

/** @typedef {{ schema: Schema, example?: unknown }} Media */

/**
 * @typedef {object} Operation
 * @property {readonly string[]} tags
 * @property {string} summary
 * @property {string} [description]
 * @property {readonly object[]} [security]
 * @property {readonly { name: string, in: string, required?: boolean, description?: string, schema: Schema }[]} [parameters]
 * @property {{ content: Readonly<Record<string, Media>> }} [requestBody]
 * @property {Readonly<Record<string, { content?: Readonly<Record<string, Media>> }>>} [responses]
 */

const ANSWER_MILLISECONDS = 300_000;
const SHOWN_CHARACTERS = 20_000;

/** @param {Schema} schema @returns {readonly Schema[]} */
function alternatives({ anyOf, oneOf }) {
  return anyOf ?? oneOf ?? [];
}

/** @param {Schema} schema @returns {string} `array of string`, `"low" | "high"`. */
function typeOf(schema) {
  const options = alternatives(schema);
  if (options.length > 0) return [...new Set(options.map(typeOf))].join(" | ");
  const values = "const" in schema ? [schema.const] : schema.enum;
  if (values) return values.map((value) => JSON.stringify(value)).join(" | ");
  return schema.items ? `array of ${typeOf(schema.items)}` : [schema.type ?? "any"].flat().join(" | ");
}

/** Texts with `code` in them. @param {string} text */
function prose(text) {
  return text.split("`").map((part, index) => (index % 2 === 0 ? part : element("code", {}, part)));
}

/**
 * @param {string} name
 * @param {Schema} schema
 * @param {boolean} [isRequired]
 * @param {string} [description]
 */
function fieldRow(name, schema, isRequired, description = schema.description) {
  const facts = [
    typeOf(schema),
    isRequired && "required",
    "default" in schema && `default ${JSON.stringify(schema.default)}`,
  ];
  return element(
    "li",
    {},
    element("code", {}, name),
    element("span", { class: "quiet" }, ` ${facts.filter(Boolean).join(", ")} `),
    ...(description === undefined ? [] : prose(description)),
    ...fieldLists(schema),
  );
}

/** @param {Schema} schema @returns {readonly Schema[]} The objects that a value may be or hold. */
function objectsOf(schema) {
  if (schema.properties) return [schema];
  return schema.items ? objectsOf(schema.items) : alternatives(schema).flatMap(objectsOf);
}

/** @param {Schema} schema @returns {HTMLElement[]} A list of fields for each object. */
function fieldLists(schema) {
  return objectsOf(schema).map(({ properties = {}, required = [] }) => {
    const rows = Object.entries(properties).map(([name, field]) =>
      fieldRow(name, field, required.includes(name)),
    );
    return element("ul", { class: "fields" }, ...rows);
  });
}

/** @param {Schema} schema @returns {unknown} A value with all required parts. */
function exampleOf(schema) {
  const { examples, default: usual, type, items, properties = {}, required = [] } = schema;
  const [first] = alternatives(schema);
  if (examples) return examples[0];
  if (usual !== undefined) return usual;
  if (first) return exampleOf(first);
  if ("const" in schema || schema.enum) return schema.const ?? schema.enum?.[0];
  if (items) return [exampleOf(items)];
  if (type === "object")
    return Object.fromEntries(required.map((name) => [name, exampleOf(properties[name] ?? {})]));
  return type === "string" ? "…" : 1;
}

/**
 * @param {string} method
 * @param {string} path
 * @param {Operation} operation
 */
function operationCard(method, path, operation) {
  const { summary, description, parameters = [], requestBody, responses = {} } = operation;
  const types = Object.keys(requestBody?.content ?? {});
  const body = requestBody?.content["application/json"];
  const answer = responses["200"]?.content?.["application/json"]?.schema;
  const rows = parameters.map(({ name, schema, required, description: words }) =>
    fieldRow(name, schema, required, words),
  );
  return element(
    "details",
    { class: "card operation" },
    element(
      "summary",
      {},
      element("h3", {}, element("span", { class: "method" }, method), " ", element("code", {}, path)),
      ` ${summary}`,
    ),
    description !== undefined && element("p", {}, ...prose(description)),
    rows.length > 0 && element("ul", { class: "fields" }, ...rows),
    body && element("h4", {}, `Body: ${types.join(" or ")}`),
    ...(body ? fieldLists(body.schema) : []),
    answer && element("details", {}, element("summary", {}, "Fields of the answer"), ...fieldLists(answer)),
    sendForm(method, path, parameters, body),
  );
}

/**
 * @param {string} method
 * @param {string} path
 * @param {NonNullable<Operation["parameters"]>} parameters
 * @param {Media | undefined} body
 */
function sendForm(method, path, parameters, body) {
  const inputs = parameters.map((parameter) => {
    const input = element("input", parameter.required ? { required: "" } : {});
    return { ...parameter, input, label: element("label", {}, parameter.name, " ", input) };
  });
  const text = element("textarea", { rows: "6", spellcheck: "false", "aria-label": "Body, as JSON" });
  if (body) text.value = JSON.stringify(body.example ?? exampleOf(body.schema), undefined, 2);
  const shown = element("div", {});
  const form = element(
    "form",
    { "aria-label": `Try ${method} ${path}` },
    ...inputs.map(({ label }) => label),
    body && text,
    element("button", { type: "submit" }, "Send"),
    shown,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const query = new URLSearchParams();
    let filled = path;
    for (const { name, in: place, input } of inputs) {
      if (place === "path") filled = filled.replace(`{${name}}`, encodeURIComponent(input.value));
      else if (input.value !== "") query.set(name, input.value);
    }
    const address = `${filled.slice(1)}${query.size > 0 ? `?${query}` : ""}`;
    const started = performance.now();
    try {
      const fields = body && JSON.parse(text.value);
      const response = await request(
        { path: address, method, fields },
        AbortSignal.timeout(ANSWER_MILLISECONDS),
      );
      const content = await contentOf(response);
      const words = `${response.status} after ${duration(performance.now() - started)}`;
      shown.replaceChildren(element("p", { class: "quiet" }, words), content);
      announce(words);
    } catch (error) {
      const { message } = /** @type {Error} */ (error);
      const status = error instanceof ApiFailure && error.status > 0 ? `${error.status}: ` : "";
      shown.replaceChildren(notice("error", status + message));
      announce(status + message);
    }
  });
  return form;
}

/** @param {Response} response */
async function contentOf(response) {
  const type = response.headers.get("content-type") ?? "";
  if (type.startsWith("image/")) {
    return element("img", { src: URL.createObjectURL(await response.blob()), alt: "The answer's image" });
  }
  const text = await response.text();
  if (text === "") return "";
  const words = type.startsWith("application/json") ? JSON.stringify(JSON.parse(text), undefined, 2) : text;
  return element("pre", {}, words.length > SHOWN_CHARACTERS ? `${words.slice(0, SHOWN_CHARACTERS)}…` : words);
}

const api = await (await request({ path: "openapi.json" })).json();
/** @type {readonly (readonly [string, string, Operation])[]} */
const operations = Object.entries(api.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(
    ([method, operation]) => /** @type {const} */ ([method.toUpperCase(), path, operation]),
  ),
);
byId("about").textContent = api.info.description;
for (const { name, description } of api.tags) {
  const cards = operations
    .filter(([, , { tags }]) => tags.includes(name))
    .map((row) => operationCard(...row));
  if (cards.length > 0) byId("main").append(element("h2", {}, description), ...cards);
}

const key = byId("key", HTMLInputElement);
key.value = apiKey() ?? "";
byId("key-line").hidden = operations.every(([, , { security }]) => security === undefined);
key.addEventListener("change", () => {
  if (key.value === "") sessionStorage.removeItem(KEY_ENTRY);
  else sessionStorage.setItem(KEY_ENTRY, key.value);
});
