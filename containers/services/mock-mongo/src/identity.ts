/** Which values MongoDB holds to be the same: the identity of an `_id`, and of a value in a unique index. */
import { createHash } from "node:crypto";
import { Decimal128, Long, serialize } from "bson";
import { isPlainObject } from "./documents.ts";
import { isNumeric, toNumber } from "./order.ts";

/**
 * Equal values, equal text: 1, 1.0 and NumberLong(1) are one value; the order of keys in a document counts, as it does for
 * MongoDB.
 *
 * @param value - Plain or typed.
 */
export function identityOf(value: unknown): string {
  return createHash("sha256")
    .update(serialize({ v: normalize(value) }))
    .digest("base64url");
}

function normalize(value: unknown): unknown {
  if (isNumeric(value)) {
    const number = toNumber(value);
    if ((value instanceof Long || value instanceof Decimal128) && !Number.isSafeInteger(number)) return value;
    // -0 and 0 are one value.
    return number === 0 ? 0 : number;
  }
  if (value === undefined) return null;
  if (Array.isArray(value)) return value.map(normalize);
  if (!isPlainObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, normalize(inner)]));
}
