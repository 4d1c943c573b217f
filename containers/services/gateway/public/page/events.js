/** Server-sent events out of a body, which EventSource can't read of a POST (WHATWG HTML, 9.2.6). */

/**
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<{ event: string, data: string }, void, void>} Leaving early closes the connection.
 */
export async function* readEvents(body) {
  let event = "message";
  /** @type {string[]} */
  let data = [];
  for await (const line of lines(body)) {
    if (line === "") {
      if (data.length > 0) yield { event, data: data.join("\n") };
      event = "message";
      data = [];
      continue;
    }
    const [, field, value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (field === "event") event = value;
    else if (field === "data") data.push(value);
  }
}

/**
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<string, void, void>} Lines that were ended; what is left at the end is no line.
 */
async function* lines(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      // A carriage return at the end may be the first half of a line's end.
      const pieces = rest.split(/\r\n|\n|\r(?!$)/);
      rest = pieces.pop() ?? "";
      yield* pieces;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
