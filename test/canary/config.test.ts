import { describe, expect, test } from "vitest";
import { checkedPlan } from "../../infra/checked-plan.ts";
import { readStack } from "../../infra/config/config.ts";
import { secretPlaces } from "./places.ts";
import { type BaseName, bases, canaryOf, placesOf, planted } from "./stacks.ts";

const names = Object.keys(bases) as BaseName[];

/** A secret as it may be given, as people mistype it, and where they forget what it belongs in. */
const forms: Readonly<Record<string, (canary: string) => unknown>> = {
  "in a list": (canary) => [canary],
  "in a mapping": (canary) => ({ value: canary }),
  "beside its cipher": (canary) => ({ secure: canary, also: canary }),
  "in a list of a mapping": (canary) => ({ secure: [canary] }),
  "as a key": (canary) => ({ [canary]: "x" }),
};

test("the walk of the schemas finds the places that are known, in every platform", () => {
  const found = Object.fromEntries(
    names.map((name) => [name, secretPlaces(bases[name].schema).map(({ path }) => path.join("."))]),
  );
  expect(found.local).toEqual(["externalDatabases.mongo.uriFile", "externalDatabases.vector.apiKeyFile"]);
  expect(found.docker).toEqual(
    expect.arrayContaining(["hub.token", "externalDatabases.mongo.uri", "externalDatabases.vector.apiKey"]),
  );
  expect(found.kubernetes).toEqual(expect.arrayContaining(["hub.token", "externalDatabases.mongo.uri"]));
  expect(found["kubernetes-cpu"]).toEqual(expect.arrayContaining(["externalDatabases.vector.apiKey"]));
  expect(found.aws).toEqual(expect.arrayContaining(["hub.token"]));
});

describe.each(names)("%s", (name) => {
  const canaries = placesOf(name).map((place) => canaryOf(name, place));

  test("a good stack file has no problem, and its plan no secret", () => {
    const values = planted(name, (place) =>
      place.kind === "file"
        ? "/etc/engine-room/secret"
        : place.path.at(-1) === "uri"
          ? `mongodb://user:${canaryOf(name, place)}@db.example.org/`
          : canaryOf(name, place),
    );
    expect(readStack(values).problems).toEqual([]);
    const said = JSON.stringify(planOf(values));
    expect(canaries.filter((canary) => said.includes(canary))).toEqual([]);
  });

  test.each(Object.entries(forms))("a secret %s is a problem that does not show it", (_form, wrong) => {
    const { problems } = readStack(planted(name, (place) => wrong(canaryOf(name, place))));
    expect(problems.length).toBeGreaterThan(0);
    const said = JSON.stringify(problems);
    expect(canaries.filter((canary) => said.includes(canary))).toEqual([]);
  });
});

function planOf(values: Readonly<Record<string, unknown>>): unknown {
  // The configuration beside the plan is what was read.
  const { plan, warnings } = checkedPlan(values);
  return { plan, warnings };
}
