/** Every operation that the project's code sends to AWS is in a table, with its stand-in in tests. */
import { readdirSync, readFileSync } from "node:fs";
import { basename, join, relative } from "node:path";
import { expect, test } from "vitest";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { type Answerer, CLI_OPERATIONS, SDK_OPERATIONS } from "../../harness/aws/script-operations.ts";

/** Folders with code, except tests. */
const FOLDERS = ["components", "containers", "infra", "loader", "policy", "scripts"];

const sources = FOLDERS.flatMap((folder) =>
  readdirSync(join(projectRoot, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(ts|mjs|yaml)$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !path.includes("node_modules")),
).map((path) => ({ path: relative(projectRoot, path), text: readFileSync(path, "utf8") }));

/** Services of the clients that a source imports, by their packages' names. */
const clientsOf = (text: string) => [
  ...new Set([...text.matchAll(/"@aws-sdk\/client-([a-z0-9-]+)"/g)].map(([, client = ""]) => client)),
];

const keys = (table: Readonly<Record<string, Answerer>>) => new Set(Object.keys(table));

test("the table of operations has exactly those that commands send", () => {
  const asked = sources.flatMap(({ text }) => [
    ...[...text.matchAll(/\bask\(\s*"([a-z0-9]+:\w+)"/g)].map(([, action = ""]) => action),
    // A file with several clients names them by their services.
    ...[...text.matchAll(/\bnew ([a-z0-9]+)\.(\w+)Command\(/g)].map(
      ([, client, name]) => `${client === "sdk" ? clientsOf(text)[0] : client}:${name}`,
    ),
  ]);
  expect(new Set(asked)).toEqual(keys(SDK_OPERATIONS));
});

test("the table of operations has exactly those that AWS's CLI is started for", () => {
  const started = [
    /"aws",\s*(?:\.{3}\[|args: \[)?"([a-z0-9]+)", "([a-z]+-[a-z-]+)"/g,
    /command: aws\s+args: \[([a-z0-9]+), ([a-z]+-[a-z-]+)/g,
  ];
  const words = sources.flatMap(({ text }) =>
    started.flatMap((form) =>
      [...text.matchAll(form)].map(([, service, operation]) => `${service} ${operation}`),
    ),
  );
  expect(new Set(words)).toEqual(keys(CLI_OPERATIONS));
});

test("each operation has a test with moto or with the fake", () => {
  const proofs = [
    ...Object.entries(SDK_OPERATIONS).map(([action, answerer]) => ({
      answerer,
      /** Text in a file's test. @param name - Name of the file without ending. */
      proof: (name: string) =>
        answerer.by === "moto" ? `checkOperations(vi.mocked(ask), "${name}")` : action,
    })),
    ...Object.values(CLI_OPERATIONS).map((answerer) => ({ answerer, proof: () => "useAwsCli(moto)" })),
  ];
  const lacking = proofs.flatMap(({ answerer, proof }) =>
    (answerer.by === "moto" ? answerer.files : [answerer.file]).flatMap((file) => {
      const words = proof(basename(file, ".test.ts"));
      return readFileSync(join(projectRoot, file), "utf8").includes(words) ? [] : [`${file}: ${words}`];
    }),
  );
  expect(lacking).toEqual([]);
});

test("every installed AWS client is used", () => {
  const { dependencies } = JSON.parse(readFileSync(join(projectRoot, "package.json"), "utf8")) as {
    readonly dependencies: Readonly<Record<string, string>>;
  };
  const installed = Object.keys(dependencies).flatMap((name) => clientsOf(`"${name}"`));
  expect(installed).toEqual([...new Set(sources.flatMap(({ text }) => clientsOf(text)))].toSorted());
});
