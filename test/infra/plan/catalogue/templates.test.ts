import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { TEMPLATE_REFS, templateSet, templateSets } from "../../../../infra/plan/catalogue/templates.ts";

interface RecordedSet {
  readonly fill_template: {
    readonly assert_unknown_key: boolean;
    readonly defaults: readonly string[];
    readonly comma_escape: boolean;
  };
  readonly models: Readonly<
    Record<
      string,
      { readonly unquoted_mandatory: readonly string[]; readonly quoted_optional: readonly string[] }
    >
  >;
}

/** Placeholders as a scan of the templates found them, at each ref. */
const recorded: Readonly<Record<string, RecordedSet>> = JSON.parse(
  readFileSync(new URL("../../../recorded/placeholders.json", import.meta.url), "utf8"),
);

describe("template sets", () => {
  it("are those of the recorded scan, in its order", () => {
    expect([...TEMPLATE_REFS]).toEqual(Object.keys(recorded));
  });

  it.each(TEMPLATE_REFS)("%s has exactly the recorded templates and placeholders", (ref) => {
    const set = templateSets[ref];
    const expected = recorded[ref];
    const models = Object.entries(expected?.models ?? {}).map(([template, keys]) => [
      template,
      { mandatory: keys.unquoted_mandatory.toSorted(), optional: keys.quoted_optional.toSorted() },
    ]);
    expect(
      Object.fromEntries(
        Object.entries(set.models).map(([template, { mandatory, optional }]) => [
          template,
          { mandatory: mandatory.toSorted(), optional: optional.toSorted() },
        ]),
      ),
    ).toEqual(Object.fromEntries(models));
    expect({
      assert_unknown_key: set.fillTemplate.assertsUnknownKey,
      defaults: set.fillTemplate.defaults,
      comma_escape: set.fillTemplate.escapesCommas,
    }).toEqual(expected?.fill_template);
  });

  it("are found by the name that a release gives, and only by that", () => {
    expect(templateSet("v0.20.0")).toBe(templateSets["v0.20.0"]);
    expect(templateSet("v9.9.9")).toBeUndefined();
    expect(templateSet("toString")).toBeUndefined();
    expect(templateSet(null)).toBeUndefined();
  });
});
