/**
 * Pages of docs/walkthroughs: what their right column says against what the commands would do. Commands are parsed, requests are
 * made, parts of a stack file are planned; all else is in the stack file or in what is recorded of it.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { checkedPlan } from "../../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../../infra/config/config.ts";
import { gatewayRequest, tritonRequest } from "../../scripts/ask/prepared-request.ts";
import { asked, requirePassedOn, usualEndpoint } from "../../scripts/ask/question.ts";
import { type AskValues, questionOf } from "../../scripts/commands/ask.ts";
import { projectRoot, readStackFile, stackReference } from "../../scripts/program/stack-file.ts";
import { npmCommands, parseNpmCommand } from "../harness/npm-commands.ts";
import type { Values } from "../infra/plan/kubernetes/stacks.ts";

const FOLDER = join(projectRoot, "docs/walkthroughs");

const pages = readdirSync(FOLDER)
  .filter((name) => name !== "README.md")
  .map((name) => name.replace(/\.md$/, ""));

const COMMAND = "npx engine-room ";

const HEADER = "| The document | Here | What differs, and why |";

const codesOf = (text: string): string[] =>
  [...text.matchAll(/`([^`]+)`/g)].map(([, code = ""]) => code.replaceAll("\\|", "|"));

const textOf = (page: string) => readFileSync(join(FOLDER, `${page}.md`), "utf8");

/** Cells of the tables with commands. */
const rowsOf = (page: string): string[][] =>
  textOf(page)
    .split(`${HEADER}\n`)
    .slice(1)
    .flatMap((table) => (/^(?:\|.*\n)+/.exec(table)?.[0] ?? "").trim().split("\n").slice(1))
    .map((row) => row.slice(2, -2).split(" | "));

/** Names the gateway's routes for documents. */
const ROUTES = join(projectRoot, "containers/services/gateway/src/routes/retrieval.ts");

/** The stack file, and all that is recorded of it, with each command on one line. */
function knownText(page: string): string {
  const folders = ["plans", "engine-specs", "server-specs", "encoder-specs"].flatMap((folder) => {
    const path = join(projectRoot, "test/recorded", folder);
    return readdirSync(path)
      .filter((name) => name.startsWith(`${page}.`))
      .map((name) => join(path, name));
  });
  return [join(projectRoot, "examples", `${page}.yaml`), ROUTES, ...folders]
    .map((file) => readFileSync(file, "utf8"))
    .join("\n")
    .replaceAll(/\s*\\\n\s*/g, " ")
    .replaceAll(/ +/g, " ");
}

const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** `…` stands for words of the same line. */
const isIn = (text: string, code: string) =>
  new RegExp(code.split("…").map(escaped).join("[^\\n]*?")).test(text);

function valuesOf(page: string): Values {
  const file = join(projectRoot, "examples", `${page}.yaml`);
  return fromRuntimeConfig(readStackFile(stackReference(page, file)).values) as Values;
}

const stackFileKeys = readFileSync(join(projectRoot, "docs/stack-file.md"), "utf8");

/** @throws What is wrong with the stack file once it has the parts as well, those of a model in any of its models. */
function planWith(page: string, parts: Values): void {
  const entries = Object.entries(parts);
  const isOfModel = ([key]: readonly [string, unknown]) => stackFileKeys.includes(`\`models[].${key}\``);
  const values = merged(valuesOf(page), Object.fromEntries(entries.filter((entry) => !isOfModel(entry))));
  const models = values.models as readonly Values[];
  const ofModel = Object.fromEntries(entries.filter(isOfModel));
  const failures = models.map((_, index) => {
    try {
      checkedPlan({
        ...values,
        models: models.map((model, at) => (at === index ? merged(model, ofModel) : model)),
      });
      return null;
    } catch (error) {
      return error;
    }
  });
  if (!failures.includes(null)) throw new Error(failures.map(String).join("\n"));
}

const isMapping = (value: unknown): value is Values =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function merged(one: Values, other: Values): Values {
  const both = Object.entries(other).map(([key, value]) => {
    const before = one[key];
    return [key, isMapping(before) && isMapping(value) && !("from" in value) ? merged(before, value) : value];
  });
  return { ...one, ...Object.fromEntries(both) };
}

/** `…` stands for options that another line has. */
async function parsed(line: string) {
  const [command] = npmCommands(line.replaceAll(" …", ""));
  return (await parseNpmCommand(command ?? expect.fail(line))) ?? expect.fail(line);
}

/** What `ask` sends, with Triton and gateway at their usual ports. */
async function requestOf(page: string, line: string) {
  const { plan } = checkedPlan(valuesOf(page));
  const { values: given, positionals } = await parsed(line);
  const values = given as AskValues & { endpoint?: "triton" | "gateway"; as?: string };
  const question = questionOf(withoutFiles(values), positionals[0], plan);
  const endpoint = values.endpoint ?? usualEndpoint(plan, question, values.as === "grpc");
  const model = asked(plan, question.model);
  requirePassedOn(model, question, endpoint);
  const profile = (question.pipeline && model.pipelines[question.pipeline]) ?? model.profile;
  const { url, body } =
    endpoint === "gateway"
      ? gatewayRequest("http://gateway", question, false)
      : tritonRequest(profile, { http: "http://triton", grpc: "triton:8001" }, question);
  return { path: new URL(url).pathname, body: JSON.parse(body) as unknown };
}

/** A picture's file is a picture of the reader's. */
const withoutFiles = (values: AskValues): AskValues => ({
  ...values,
  image: values.image?.map((image) =>
    /^https?:/.test(image) ? image : "https://pictures.example.org/picture.png",
  ),
});

describe.each(pages)("docs/walkthroughs/%s.md", (page) => {
  const text = textOf(page);
  const [, stack] = /`cp examples\/\S+\.yaml Pulumi\.([\w-]+)\.yaml`/.exec(text) ?? [];
  const lines = codesOf(text).filter((code) => code.startsWith(COMMAND));
  const known = knownText(page);
  const rows = rowsOf(page);

  test("every row has the document's command, ours, and what differs", () => {
    expect(rows.length).toBeGreaterThan(10);
    expect(rows.filter((cells) => cells.length !== 3 || cells.includes(""))).toEqual([]);
  });

  test.each(lines)("the command line is valid: %s", async (line) => {
    expect((await parsed(line)).values.stack).toBe(stack);
  });

  test.each(rows)("the equivalent of %s is what is planned, recorded or sent", async (_left, cell = "") => {
    let asking: string | undefined;
    let parts: Values = {};
    for (const code of codesOf(cell)) {
      if (code.startsWith(COMMAND)) asking = code.startsWith(`${COMMAND}ask `) ? code : undefined;
      else if (asking !== undefined && /^(\/v[12]\/|\{)/.test(code)) {
        const { path, body } = await requestOf(page, asking);
        if (code.startsWith("/")) expect(path).toBe(code);
        else expect(body).toEqual(JSON.parse(code));
      } else if (!isIn(known, code)) {
        const part: unknown = parse(code);
        if (isMapping(part)) parts = merged(parts, part);
        else expect.fail(`neither the stack file nor anything recorded has ${code}`);
      }
    }
    if (Object.keys(parts).length > 0) planWith(page, parts);
  });
});
