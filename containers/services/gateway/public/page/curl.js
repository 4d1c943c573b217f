/** Requests as lines for a terminal. A key is never part of one: the shell puts it in. */

/** The variable that holds the key on the reader's machine. */
const KEY_VARIABLE = "ENGINE_ROOM_API_KEY";

/**
 * @param {import("./api.js").Call} call An image becomes a reference to its file.
 * @param {{ base: string, hasKey: boolean, streams: boolean }} context `base`: the page's address.
 * @returns {string} One command, a line for each option.
 */
export function curlLine({ path, fields, image }, { base, hasKey, streams }) {
  const options = [];
  if (streams) options.push("--no-buffer");
  options.push(...keyOptions(hasKey));
  if (image === undefined) {
    options.push("--header 'content-type: application/json'", `--data ${quoted(JSON.stringify(fields))}`);
  } else {
    // Of --form alone curl would read a leading @ or < as the name of a file.
    for (const [name, value] of Object.entries(fields))
      options.push(`--form-string ${quoted(`${name}=${value}`)}`);
    options.push(`--form ${quoted(`image=@${formFile(image.name)}`)}`);
  }
  return command(path, base, options);
}

/**
 * @param {string} path Of a file on the gateway.
 * @param {string} name What it is to be called on the reader's machine.
 * @param {{ base: string, hasKey: boolean }} context As of {@link curlLine}.
 * @returns {string}
 */
export function downloadLine(path, name, { base, hasKey }) {
  return command(path, base, [...keyOptions(hasKey), `--output ${quoted(name)}`]);
}

/**
 * @param {string} path
 * @param {string} base
 * @param {readonly string[]} options
 */
function command(path, base, options) {
  return [`curl ${quoted(new URL(path, base).href)}`, ...options].join(" \\\n  ");
}

/** @param {boolean} hasKey */
function keyOptions(hasKey) {
  // Double quotes, so that the shell puts the key in its place.
  return hasKey ? [`--header "authorization: Bearer $${KEY_VARIABLE}"`] : [];
}

/**
 * @param {string} text
 * @returns {string} One word of a POSIX shell.
 */
function quoted(text) {
  return /^[A-Za-z0-9_./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/**
 * @param {string} name
 * @returns {string} As curl wants names that hold its own separators.
 */
function formFile(name) {
  return /[;,"\\]/.test(name) ? `"${name.replace(/["\\]/g, "\\$&")}"` : name;
}
