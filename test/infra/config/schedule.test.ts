import { expect, test } from "vitest";
import { schedule } from "../../../infra/config/schedule.ts";

const accepts = (change: object) =>
  schedule.safeParse({ start: "0 8 * * 1-5", end: "0 20 * * 1-5", timeZone: "Europe/Berlin", ...change })
    .success;

test.each(["0 8 * * 1-5", "*/15 0,12 1-15/2 jan-MAR Mon", "59 23 31 12 6", "0 0 ? * sun"])(
  "%s is a time",
  (start) => expect(accepts({ start })).toBe(true),
);

test.each([
  "99 8 * * *",
  "0 24 * * *",
  "0 8 0 * *",
  "0 8 * 13 *",
  "0 8 * * 7",
  "0 8 * * fri-mon",
  "0 8 * *",
  "0 8 * * * *",
  "x 8 * * *",
  "0 8 * * 1-2-3",
  "*/0 8 * * *",
  "@daily",
])("%s is none", (start) => expect(accepts({ start })).toBe(false));

test.each([
  ["UTC", true],
  ["America/Argentina/Buenos_Aires", true],
  ["Europe/Berlim", false],
  ["", false],
])("time zone %s: %s", (timeZone, isOne) => expect(accepts({ timeZone })).toBe(isOne));
