/** Qdrant's filters, as far as they are supported: https://qdrant.tech/documentation/concepts/filtering/ */
import { z } from "zod";
import { type PointId, pointId } from "./points.ts";
import { firstProblem } from "./problems.ts";

const scalar = z.union([z.string(), z.number(), z.boolean()]);
const key = z.string().min(1).max(200);

const match = z.union(
  [
    z.strictObject({ value: scalar }),
    z.strictObject({ any: z.array(scalar).max(10_000) }),
    z.strictObject({ except: z.array(scalar).max(10_000) }),
  ],
  { error: "must be { value }, { any: [...] } or { except: [...] } with strings, numbers or booleans" },
);

const range = z.strictObject({
  gt: z.number().nullish(),
  gte: z.number().nullish(),
  lt: z.number().nullish(),
  lte: z.number().nullish(),
});

export type Filter = {
  must?: Condition | Condition[] | null | undefined;
  should?: Condition | Condition[] | null | undefined;
  must_not?: Condition | Condition[] | null | undefined;
};

type Condition =
  | { key: string; match: z.infer<typeof match> }
  | { key: string; range: z.infer<typeof range> }
  | { is_empty: { key: string } }
  | { is_null: { key: string } }
  | { has_id: PointId[] }
  | Filter;

/** The forms of a condition, each known by a field that no other has. */
const FORMS: readonly (readonly [field: string, schema: z.ZodType<Condition>])[] = [
  ["match", z.strictObject({ key, match })],
  ["range", z.strictObject({ key, range })],
  ["is_empty", z.strictObject({ is_empty: z.strictObject({ key }) })],
  ["is_null", z.strictObject({ is_null: z.strictObject({ key }) })],
  ["has_id", z.strictObject({ has_id: z.array(pointId).max(100_000) })],
];

/** Not a union: its error would not say which of the forms a client came near to. */
const condition: z.ZodType<Condition> = z.lazy(() =>
  z.record(z.string(), z.unknown()).transform((given, context): Condition => {
    const form = FORMS.find(([field]) => Object.hasOwn(given, field));
    if (form === undefined && Object.keys(given).some((field) => !CLAUSES.includes(field))) {
      const message = `unknown condition with ${Object.keys(given).join(", ")}; there are ${[...FORMS.map(([field]) => field), ...CLAUSES].join(", ")}`;
      context.addIssue({ code: "custom", message });
      return z.NEVER;
    }
    const parsed = (form?.[1] ?? filterSchema).safeParse(given);
    if (parsed.success) return parsed.data;
    const { path, message } = firstProblem(parsed.error.issues);
    context.addIssue({ code: "custom", path: [...path], message });
    return z.NEVER;
  }),
);

const CLAUSES = ["must", "should", "must_not"];

const conditions = z.union([condition, z.array(condition).max(1000)]).nullish();

/** Conditions that are not in it (geo, values_count, nested …) are refused. */
export const filterSchema: z.ZodType<Filter> = z.lazy(() =>
  z.strictObject({ must: conditions, should: conditions, must_not: conditions }),
);

export type Payload = Readonly<Record<string, unknown>>;
export type Accepts = (id: PointId, payload: Payload) => boolean;

/** A filter as a function; undefined accepts everything. */
export function compileFilter(filter: Filter | null | undefined): Accepts | undefined {
  if (filter === null || filter === undefined) return undefined;
  const must = listOf(filter.must).map(compileCondition);
  const should = listOf(filter.should).map(compileCondition);
  const mustNot = listOf(filter.must_not).map(compileCondition);
  return (id, payload) =>
    must.every((accepts) => accepts(id, payload)) &&
    (should.length === 0 || should.some((accepts) => accepts(id, payload))) &&
    !mustNot.some((accepts) => accepts(id, payload));
}

function listOf(given: Condition | Condition[] | null | undefined): Condition[] {
  if (given === null || given === undefined) return [];
  return Array.isArray(given) ? given : [given];
}

function compileCondition(one: Condition): Accepts {
  if ("match" in one) return compileMatch(one.key, one.match);
  if ("range" in one) return compileRange(one.key, one.range);
  if ("is_empty" in one) {
    const { key: path } = one.is_empty;
    return (_id, payload) => valuesAt(payload, path).every((value) => value === null);
  }
  if ("is_null" in one) {
    const { key: path } = one.is_null;
    return (_id, payload) => valuesAt(payload, path).some((value) => value === null);
  }
  if ("has_id" in one) {
    const ids = new Set(one.has_id);
    return (id) => ids.has(id);
  }
  return compileFilter(one) ?? (() => true);
}

function compileMatch(path: string, wanted: z.infer<typeof match>): Accepts {
  if ("value" in wanted) return (_id, payload) => valuesAt(payload, path).includes(wanted.value);
  if ("any" in wanted) {
    const any = new Set<unknown>(wanted.any);
    return (_id, payload) => valuesAt(payload, path).some((value) => any.has(value));
  }
  const except = new Set<unknown>(wanted.except);
  return (_id, payload) => valuesAt(payload, path).some((value) => !except.has(value));
}

function compileRange(path: string, { gt, gte, lt, lte }: z.infer<typeof range>): Accepts {
  return (_id, payload) =>
    valuesAt(payload, path).some(
      (value) =>
        typeof value === "number" &&
        (gt == null || value > gt) &&
        (gte == null || value >= gte) &&
        (lt == null || value < lt) &&
        (lte == null || value <= lte),
    );
}

/** Values at `a.b`, or at each element of `a[].b`; a list that is the value itself counts by its elements. */
function valuesAt(payload: Payload, path: string): unknown[] {
  let values: unknown[] = [payload];
  for (const part of path.split(".")) {
    const isEach = part.endsWith("[]");
    const name = isEach ? part.slice(0, -2) : part;
    values = values.flatMap((value) => {
      if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return [];
      const inner = (value as Record<string, unknown>)[name];
      return isEach && Array.isArray(inner) ? inner : [inner];
    });
  }
  return values.flatMap((value) => (Array.isArray(value) ? value : [value]));
}
