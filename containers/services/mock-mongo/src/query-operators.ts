/**
 * The query operators: mingo's, except for those whose result depends on BSON's types, which JavaScript's values don't
 * have. https://www.mongodb.com/docs/manual/reference/operator/query/
 */
import { Binary, BSONRegExp, Decimal128, MaxKey, MinKey, ObjectId, Timestamp } from "bson";
import { Context } from "mingo/core";
import * as mingoOperators from "mingo/operators/query";
import { isPlainObject } from "./documents.ts";
import { CommandError } from "./errors.ts";
import { compareValues, isNumeric, toNumber, typeRank } from "./order.ts";
import { valuesAt } from "./paths.ts";

type Operator = (path: string, operand: unknown) => (document: unknown) => boolean;

/** A value matches when it, or an element of the list that it is, is of the operand's type and stands right to it. */
function range(isMatch: (order: number) => boolean): Operator {
  return (path, operand) => {
    const test = (value: unknown): boolean => {
      if (isNotANumber(value) || isNotANumber(operand))
        return isNotANumber(value) && isNotANumber(operand) && isMatch(0);
      const isEnd = operand instanceof MinKey || operand instanceof MaxKey;
      if (!isEnd && typeRank(value) !== typeRank(operand)) return false;
      return isMatch(compareValues(value, operand));
    };
    return (document) => candidates(document, path).some(test);
  };
}

function isNotANumber(value: unknown): boolean {
  return isNumeric(value) && Number.isNaN(toNumber(value));
}

/** What a condition on a path is held against: nothing counts as null, and a list by its elements as well. */
function candidates(document: unknown, path: string): unknown[] {
  const found = valuesAt(document, path);
  if (found.length === 0) return [null];
  return found.flatMap((value) => (Array.isArray(value) ? [value, ...value] : [value]));
}

const TYPES: Readonly<Record<string, readonly [number: number, test: (value: unknown) => boolean]>> = {
  string: [2, (value) => typeof value === "string"],
  object: [3, isPlainObject],
  array: [4, Array.isArray],
  binData: [5, (value) => value instanceof Binary],
  objectId: [7, (value) => value instanceof ObjectId],
  bool: [8, (value) => typeof value === "boolean"],
  date: [9, (value) => value instanceof Date],
  null: [10, (value) => value === null],
  regex: [11, (value) => value instanceof RegExp || value instanceof BSONRegExp],
  timestamp: [17, (value) => value instanceof Timestamp],
  decimal: [19, (value) => value instanceof Decimal128],
  minKey: [-1, (value) => value instanceof MinKey],
  maxKey: [127, (value) => value instanceof MaxKey],
  number: [Number.NaN, isNumeric],
};

const $type: Operator = (path, operand) => {
  const tests = (Array.isArray(operand) ? operand : [operand]).map((type: unknown) => {
    const found =
      typeof type === "string" && Object.hasOwn(TYPES, type)
        ? TYPES[type]
        : Object.values(TYPES).find(([number]) => number === type);
    if (found === undefined) {
      throw new CommandError(
        2,
        `$type ${String(type)} is not supported by this server; there are ${Object.keys(TYPES).join(", ")}`,
      );
    }
    return found[1];
  });
  return (document) =>
    valuesAt(document, path)
      .flatMap((value) => (Array.isArray(value) ? [value, ...value] : [value]))
      .some((value) => tests.some((test) => test(value)));
};

/** For mingo: which operators there are. */
export const queryContext = Context.init({
  query: {
    ...mingoOperators,
    $gt: range((order) => order > 0),
    $gte: range((order) => order >= 0),
    $lt: range((order) => order < 0),
    $lte: range((order) => order <= 0),
    $type,
  } as never,
});
