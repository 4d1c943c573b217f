/** When models have a server by the clock. */
import { z } from "zod";
import { formExplanation, schemaMessage } from "./common.ts";

interface Field {
  readonly least: number;
  readonly most: number;
  readonly names?: readonly string[];
}

/** As KEDA's parser takes them, in their order: https://pkg.go.dev/github.com/robfig/cron/v3#hdr-CRON_Expression_Format */
const FIELDS: readonly Field[] = [
  { least: 0, most: 59 },
  { least: 0, most: 23 },
  { least: 1, most: 31 },
  {
    least: 1,
    most: 12,
    names: ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
  },
  { least: 0, most: 6, names: ["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

/** `*`, `1-5`, `mon-fri`, `0,30`, and a step after any of them. */
function isCronField(text: string, { least, most, names = [] }: Field): boolean {
  return text.split(",").every((part) => {
    const [range = "", step, ...rest] = part.split("/");
    if (rest.length > 0 || (step !== undefined && !/^[1-9]\d?$/.test(step))) return false;
    if (range === "*" || range === "?") return true;
    const ends = range.split("-").map((end) => {
      const named = names.indexOf(end.toLowerCase());
      if (named >= 0) return named + least;
      return /^\d{1,2}$/.test(end) ? Number(end) : Number.NaN;
    });
    const [from = Number.NaN, to = from] = ends;
    return ends.length <= 2 && from >= least && to <= most && from <= to;
  });
}

function isCron(text: string): boolean {
  const fields = text.split(" ");
  return (
    fields.length === FIELDS.length && FIELDS.every((field, index) => isCronField(fields[index] ?? "", field))
  );
}

/** Of the IANA database that comes with Node. */
function isTimeZone(text: string): boolean {
  try {
    new Intl.DateTimeFormat("en", { timeZone: text });
    return true;
  } catch {
    return false;
  }
}

const cron = z
  .string()
  .refine(
    isCron,
    schemaMessage([
      formExplanation(
        "must be five fields: minute (0 to 59), hour (0 to 23), day of the month (1 to 31), month (1 to 12), day of the week (0, Sunday, to 6)",
        "0 8 * * 1-5",
      ),
    ]),
  );

/**
 * When models with `minReplicas` have a server, asked for or not. Outside of it `minReplicas` and the load decide: with 0
 * they sleep until somebody asks for them.
 */
export const schedule = z.strictObject({
  start: cron,
  end: cron,
  timeZone: z
    .string()
    .refine(
      isTimeZone,
      schemaMessage([formExplanation("must be a time zone of the IANA database", "Europe/Berlin")]),
    ),
  /** Servers of each model meanwhile, at most its `replicas`. */
  replicas: z.int().min(1).max(64).default(1),
});
