import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { checkedPlan } from "../../infra/checked-plan.ts";
import { readStack } from "../../infra/config/config.ts";
import { SECRET_PATHS } from "../../infra/problems.ts";
import { previewText } from "../../scripts/ci/preview-comment.ts";
import { refusals } from "../../scripts/diff/blocking-changes.ts";
import { stackDiff } from "../../scripts/diff/compare.ts";
import { previewChanges } from "../../scripts/diff/preview.ts";
import { markdownComment, textReport } from "../../scripts/diff/print.ts";
import { unrendered } from "../../scripts/diff/rendered-tree.ts";
import { stackSettings } from "../../scripts/diff/stack-settings.ts";
import type { StackDiff } from "../../scripts/diff/types.ts";
import { plainInline } from "../../scripts/markdown.ts";
import { prettyJson, SECRET_SIGNATURE, SIGNATURE_KEY } from "../../scripts/program/serialized.ts";
import { approvedPreview } from "../../scripts/stack/approved-preview.ts";
import { stackFileText } from "../harness/stack-files.ts";
import { diffOfFiles, renderedText } from "../scripts/diff/fixtures.ts";
import { runCommand } from "../scripts/plan/run-plan.ts";
import { type SecretPlace, secretPlaces } from "./places.ts";
import { type BaseName, bases, canaryOf, placesOf, planted } from "./stacks.ts";

const names = Object.keys(bases) as BaseName[];

/** A secret in a wrong form, as users may mistype it. */
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
  // Without the configuration, which has the secrets that were read.
  const { plan, warnings } = checkedPlan(values);
  return { plan, warnings };
}

/** All printed forms of a difference. */
function formsOf(diff: StackDiff): readonly string[] {
  const run = { headSha: "0".repeat(40), runUrl: "https://github.example/1", hasFailed: true };
  return [
    textReport(diff),
    markdownComment([diff]),
    prettyJson(diff),
    previewText([{ stack: diff.stack, diff, failure: null }], { ...run, missing: [], unread: 0 }),
    ...refusals(diff).map(plainInline),
  ];
}

/** Stacks whose file holds the secret itself, not the path of a file. */
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
    for (const text of formsOf(diff)) {
      for (const place of placesOf(name)) {
        expect(text).toContain(place.path.join("."));
        expect(text).not.toContain(canaryOf(name, place));
      }
    }
  },
);

test.each(misplaced.filter(([name]) => withText.includes(name)))(
  "a difference to a stack file of %s with a secret %s does not show it",
  async (name, _form, wrong) => {
    const text = (put: (canary: string) => unknown) =>
      stackFileText(planted(name, (place) => put(canaryOf(name, place))));
    const diff = await diffOfFiles(stackFileText(bases[name].values), text(wrong));
    expect(diff.head.problems).not.toEqual([]);
    const said = formsOf(diff).join("\n");
    expect(canariesOf(name).filter((canary) => said.includes(canary))).toEqual([]);
  },
);

test.each(withText)("an error of a program or of the CLI that has secrets of %s shows none", async (name) => {
  const [canaries, base] = [canariesOf(name), await renderedText(stackFileText(bases[name].values))];
  const values = planted(name, (place) => canaryOf(name, place));
  const head = await settingsOf(stackFileText(values));
  const message = `It broke: ${canaries.join(", ")}\n${canaries.join("")}`;
  const diff = stackDiff(
    "demo",
    { ref: null, commit: null, ...base, hasStack: true },
    { ...base, ...head, tree: unrendered(message) },
  );
  const failed = JSON.stringify({ diagnostics: [{ severity: "error", message }], changeSummary: {} });
  const { stderr } = await refusedPreview(stackFileText(values), failed);
  expect(stderr).toContain("It broke: [secret]");
  const said = [...formsOf(diff), stderr].join("\n");
  expect(said).toContain("It broke: [secret]");
  expect(canaries.filter((canary) => said.includes(canary))).toEqual([]);
});

/** Secrets in each place of a state and each form that the CLI writes: encrypted, or plain text with `--show-secrets`. */
const stateSecrets = ["top", "nested", "listed", "key of a mapping", "outputs", "config"].flatMap((place) =>
  ["ciphertext", "plaintext", "value"].map((form) => ({ place, form, canary: `canary${place}${form}hush` })),
);

test("no secret of a state is in a difference or in an approved preview", async () => {
  const mark = (place: string, side: string) => {
    const forms = stateSecrets
      .filter((secret) => secret.place === place)
      .map(({ form, canary }) => [
        form,
        {
          [SIGNATURE_KEY]: SECRET_SIGNATURE,
          [form]: form === "plaintext" ? JSON.stringify(`${canary}${side}`) : `${canary}${side}`,
        },
      ]);
    return Object.fromEntries(forms) as Readonly<Record<string, unknown>>;
  };
  const state = (side: string) => ({
    type: "kubernetes:core/v1:Secret",
    custom: true,
    inputs: {
      ...mark("top", side),
      spec: { nested: mark("nested", side) },
      list: [mark("listed", side), { name: "a", value: mark("listed", side) }],
      data: {
        "server.json": {
          [SIGNATURE_KEY]: SECRET_SIGNATURE,
          ciphertext: `${"canarykey of a mappingciphertexthush"}${side}`,
        },
      },
    },
    outputs: mark("outputs", side),
  });
  const step = (op: string) => ({
    op,
    urn: `urn:pulumi:demo::engine-room::kubernetes:core/v1:Secret::${op}`,
    ...(op === "create" ? {} : { oldState: state("former") }),
    ...(op === "delete" ? {} : { newState: state("newer") }),
    detailedDiff: { "spec.nested.value": { kind: "update" }, ciphertext: { kind: "update-replace" } },
  });
  const preview = JSON.stringify({
    config: mark("config", "newer"),
    steps: ["create", "update", "delete", "replace"].map(step),
    changeSummary: { same: 1 },
  });
  const rendered = await renderedText(stackFileText(bases.kubernetes.values));
  const base = { ref: null, commit: null, ...rendered, hasStack: true };
  const diff = stackDiff("demo", base, rendered, previewChanges(preview));
  expect(diff.resources).toHaveLength(4);
  const said = [...formsOf(diff), JSON.stringify(approvedPreview("demo", preview))].join("\n");
  expect(said).toContain("[secret]");
  expect(stateSecrets.filter(({ canary }) => said.includes(canary))).toEqual([]);
});

/** Output of `diff --preview` of a preview that failed. */
async function refusedPreview(text: string, preview: string) {
  return inFolder((folder) => {
    const [stackFile, previewFile] = [join(folder, "stack.yaml"), join(folder, "preview.json")];
    writeFileSync(stackFile, text);
    writeFileSync(previewFile, preview);
    const stack = ["--stack", "demo", "--config-file", stackFile];
    return runCommand("diff", ...stack, "--base", "HEAD", "--preview", previewFile);
  });
}

async function settingsOf(text: string) {
  return inFolder(async (folder) => {
    const configFile = join(folder, "stack.yaml");
    writeFileSync(configFile, text);
    return { settings: stackSettings({ configFile }) };
  });
}

async function inFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-canary-"));
  try {
    return await use(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
