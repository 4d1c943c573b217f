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
  // Double quotes, so that the shell puts the key in its place.
  if (hasKey) options.push(`--header "authorization: Bearer $${KEY_VARIABLE}"`);
  if (image === undefined) {
    options.push("--header 'content-type: application/json'", `--data ${quoted(JSON.stringify(fields))}`);
  } else {
    // Of --form alone curl would read a leading @ or < as the name of a file.
    for (const [name, value] of Object.entries(fields))
      options.push(`--form-string ${quoted(`${name}=${value}`)}`);
    options.push(`--form ${quoted(`image=@${formFile(image.name)}`)}`);
  }
  return [`curl ${quoted(new URL(path, base).href)}`, ...options].join(" \\\n  ");
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
