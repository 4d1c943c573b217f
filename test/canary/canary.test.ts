import { expect, test } from "vitest";
import { checkedPlan } from "../../infra/checked-plan.ts";
import { readStack } from "../../infra/config/config.ts";
import { SECRET_PATHS } from "../../infra/problems.ts";
import { markdownComment, textReport } from "../../scripts/diff/print.ts";
import { prettyJson } from "../../scripts/program/serialized.ts";
import { stackFileText } from "../harness/stack-files.ts";
import { diffOfFiles } from "../scripts/diff/fixtures.ts";
import { type SecretPlace, secretPlaces } from "./places.ts";
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

test("the schemas' secrets are found on every platform", () => {
  const found = names.map((name) => [
    name,
    secretPlaces(bases[name].schema).map(({ path }) => path.join(".")),
  ]);
  const inExternal = ["externalDatabases.mongo.uri", "externalDatabases.vector.apiKey"];
  expect(Object.fromEntries(found)).toEqual({
    local: ["externalDatabases.mongo.uriFile", "externalDatabases.vector.apiKeyFile"],
    docker: expect.arrayContaining(["hub.token", ...inExternal]),
    "docker-cpu": inExternal,
    kubernetes: expect.arrayContaining(["hub.token", ...inExternal]),
    "kubernetes-cpu": inExternal,
    aws: expect.arrayContaining(["hub.token", ...inExternal]),
    "aws-ec2": expect.arrayContaining(["hub.token", ...inExternal]),
  });
});

test("the list of secret keys is that of the schemas", () => {
  const places = names.flatMap((name) => secretPlaces(bases[name].schema));
  const texts = places.filter(({ kind }) => kind === "text").map(({ path }) => path.join("."));
  expect([...SECRET_PATHS].sort()).toEqual([...new Set(texts)].sort());
});

const canariesOf = (name: BaseName) => placesOf(name).map((place) => canaryOf(name, place));

test.each(names)("a valid stack file of %s has no problem, and its plan shows no secret", (name) => {
  const values = planted(name, (place) =>
    place.kind === "file"
      ? "/etc/engine-room/secret"
      : place.path.at(-1) === "uri"
        ? `mongodb://user:${canaryOf(name, place)}@db.example.org/`
        : canaryOf(name, place),
  );
  expect(readStack(values).problems).toEqual([]);
  const said = JSON.stringify(planOf(values));
  expect(canariesOf(name).filter((canary) => said.includes(canary))).toEqual([]);
});

const misplaced = names.flatMap((name) =>
  Object.entries(forms).map(([form, wrong]) => [name, form, wrong] as const),
);

test.each(misplaced)(
  "a stack file of %s with a secret %s has a problem that does not show it",
  (name, _form, wrong) => {
    const { problems } = readStack(planted(name, (place) => wrong(canaryOf(name, place))));
    expect(problems.length).toBeGreaterThan(0);
    const said = JSON.stringify(problems);
    expect(canariesOf(name).filter((canary) => said.includes(canary))).toEqual([]);
  },
);

function planOf(values: Readonly<Record<string, unknown>>): unknown {
  // The configuration beside the plan is what was read.
  const { plan, warnings } = checkedPlan(values);
  return { plan, warnings };
}

/** Those whose stack file holds the secret itself: of a file no command reads more than `up` needs. */
const withText = names.filter((name) => placesOf(name).some(({ kind }) => kind === "text"));

test("more than three stacks hold a secret in their file", () => {
  expect(withText.length).toBeGreaterThan(3);
});

test.each(withText)(
  "replaced secrets of %s are reported as changed, and no form of the difference shows them",
  async (name) => {
    const secretAt = (place: SecretPlace, side: string) => {
      const canary = `${canaryOf(name, place)}${side}`;
      return place.path.at(-1) === "uri" ? `mongodb://user:${canary}@db.example.org/` : canary;
    };
    const file = (side: string) => stackFileText(planted(name, (place) => secretAt(place, side)));
    const diff = await diffOfFiles(file("former"), file("newer"));
    expect([diff.base.problems, diff.head.problems]).toEqual([[], []]);
    expect(diff.secrets).toEqual(
      placesOf(name)
        .map(({ path }) => path.join("."))
        .toSorted()
        .map((path) => ({ path, kind: "update" })),
    );
    for (const text of [textReport(diff), markdownComment([diff]), prettyJson(diff)]) {
      for (const place of placesOf(name)) {
        expect(text).toContain(place.path.join("."));
        expect(text).not.toContain(canaryOf(name, place));
      }
    }
  },
);
