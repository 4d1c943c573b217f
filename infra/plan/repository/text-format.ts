/**
 * Protobuf's text format, as far as configuration files need it:
 * https://protobuf.dev/reference/protobuf/textformat-spec
 */

/** A name of an enum's value, which is written without quotes. */
export interface EnumValue {
  readonly enumValue: string;
}

type Value = string | number | boolean | EnumValue | Message;
/** A field that is undefined, or a list without elements, is left out. A list is a repeated field. */
export interface Message {
  readonly [field: string]: Value | readonly Value[] | undefined;
}

/** Renders a message with its fields in the order in which the object has them, and a newline at the end. */
export function renderTextFormat(message: Message): string {
  return fields(message, "").join("");
}

function fields(message: Message, indent: string): string[] {
  return Object.entries(message).flatMap(([name, value]) => {
    if (value === undefined) return [];
    return isList(value) ? value.map((one) => field(name, one, indent)) : [field(name, value, indent)];
  });
}

function field(name: string, value: Value, indent: string): string {
  if (isMessage(value)) {
    return `${indent}${name} {\n${fields(value, `${indent}  `).join("")}${indent}}\n`;
  }
  return `${indent}${name}: ${scalar(name, value)}\n`;
}

function scalar(name: string, value: string | number | boolean | EnumValue): string {
  if (typeof value === "string") return quote(value);
  if (typeof value === "object") return value.enumValue;
  if (typeof value === "number" && !Number.isSafeInteger(value)) {
    throw new RangeError(`${name} is ${value}; it must be an integer between -(2^53 - 1) and 2^53 - 1.`);
  }
  return String(value);
}

/**
 * A string literal of printable ASCII alone: quotes and backslashes escaped, every other byte of its UTF-8 in
 * octal.
 *
 * @throws RangeError for half a surrogate pair, which has no UTF-8.
 */
export function quote(text: string): string {
  if (!text.isWellFormed()) {
    throw new RangeError(`${JSON.stringify(text)} has half a surrogate pair; give well-formed Unicode.`);
  }
  const bytes = Array.from(new TextEncoder().encode(text), escapeByte);
  return `"${bytes.join("")}"`;
}

const NAMED_ESCAPES: ReadonlyMap<number, string> = new Map([
  [0x09, "\\t"],
  [0x0a, "\\n"],
  [0x0d, "\\r"],
  [0x22, '\\"'],
  [0x5c, "\\\\"],
]);

function escapeByte(byte: number): string {
  const named = NAMED_ESCAPES.get(byte);
  if (named !== undefined) return named;
  const isPrintable = byte >= 0x20 && byte < 0x7f;
  return isPrintable ? String.fromCharCode(byte) : `\\${byte.toString(8).padStart(3, "0")}`;
}

function isList(value: Value | readonly Value[]): value is readonly Value[] {
  return Array.isArray(value);
}

function isMessage(value: Value): value is Message {
  return typeof value === "object" && !("enumValue" in value);
}
