/**
 * Right columns of docs/walkthroughs against the commands. Commands are parsed, requests are built, parts of a stack file are
 * planned; all else is in the stack file or in its recorded output.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { checkedPlan } from "../../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../../infra/config/config.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { SAMPLE_IMAGE_DATA_URL } from "../../scripts/ask/golden.ts";
import { gatewayRequest, tritonRequest } from "../../scripts/ask/prepared-request.ts";
import {
  type AskedEndpoint,
  asked,
  type Question,
  requirePassedOn,
  usualEndpoint,
} from "../../scripts/ask/question.ts";
import { type AskValues, PRINTERS, questionOf } from "../../scripts/commands/ask.ts";
import { explain } from "../../scripts/plan/explain.ts";
import { projectRoot, readStackFile, stackReference } from "../../scripts/program/stack-file.ts";
import { npmCommands, parseNpmCommand } from "../harness/npm-commands.ts";
import type { Values } from "../infra/plan/kubernetes/stacks.ts";
import { runCommand } from "../scripts/plan/run-plan.ts";
import { describedKinds } from "./stack-file/reference.ts";

const FOLDER = join(projectRoot, "docs/walkthroughs");

const pages = readdirSync(FOLDER)
  .filter((name) => name !== "README.md")
  .map((name) => name.replace(/\.md$/, ""));

interface AskChoices {
  readonly endpoint?: AskedEndpoint;
  readonly as?: keyof typeof PRINTERS;
}

const COMMAND = "npx engine-room ";

/** Ends a command that prints what it would run. */
const EXPLAINS = " --explain";

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

/** The stack file, and its recorded output. */
function knownText(page: string): string {
  const folders = ["plans", "engine-specs", "server-specs", "encoder-specs", "bench"].flatMap((folder) => {
    const path = join(projectRoot, "test/recorded", folder);
    return readdirSync(path)
      .filter((name) => name.startsWith(`${page}.`))
      .map((name) => join(path, name));
  });
  return [join(projectRoot, "examples", `${page}.yaml`), ROUTES, ...folders]
    .map((file) => inLines(readFileSync(file, "utf8")))
    .join("\n");
}

/** Each command on one line. */
const inLines = (text: string) => text.replaceAll(/\s*\\\n\s*/g, " ").replaceAll(/ +/g, " ");

const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** `…` stands for words of the same line. */
const pattern = (code: string) => code.split("…").map(escaped).join("[^\\n]*?");

const isIn = (text: string, code: string) => new RegExp(pattern(code)).test(text);

function valuesOf(page: string): Values {
  const file = join(projectRoot, "examples", `${page}.yaml`);
  return fromRuntimeConfig(readStackFile(stackReference(page, file)).values) as Values;
}

const stackFileKeys = new Set(describedKinds().flatMap(({ keys }) => keys.map(({ path }) => path)));

/**
 * @param name - The model that has the parts of a model; absent: any that can have them.
 * @throws Problems of the stack file with the parts.
 */
function planWith(page: string, parts: Values, name?: string): StackPlan {
  const entries = Object.entries(parts);
  const isOfModel = ([key]: readonly [string, unknown]) => stackFileKeys.has(`models[].${key}`);
  const values = merged(valuesOf(page), Object.fromEntries(entries.filter((entry) => !isOfModel(entry))));
  const models = values.models as readonly Values[];
  const ofModel = Object.fromEntries(entries.filter(isOfModel));
  const failures: unknown[] = [];
  for (const changed of models.filter((model) => name === undefined || model.name === name)) {
    try {
      return checkedPlan({
        ...values,
        models: models.map((model) => (model === changed ? merged(model, ofModel) : model)),
      }).plan;
    } catch (error) {
      failures.push(error);
    }
  }
  throw new Error(failures.map(String).join("\n"));
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

async function explained(page: string, line: string): Promise<string> {
  const { script, args } = npmCommands(line)[0] ?? expect.fail(line);
  const file = join(projectRoot, "examples", `${page}.yaml`);
  const { exitCode, stdout, stderr } = await runCommand(script, ...args, "--config-file", file);
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
  return inLines(stdout);
}

const commandsOf = (plan: StackPlan): string =>
  plan.tier === "gpu" ? plan.models.map(({ name }) => inLines(explain(plan, name, "/store"))).join("\n") : "";

/** Request and output of `ask`, with Triton and gateway at their usual ports, for the stack with the parts. */
async function requestOf(page: string, line: string, parts: Values) {
  const { values, positionals } = await parsed(line);
  const given = withFiles(values as AskValues);
  const plan = planWith(page, parts, given.model);
  const question = withFrames(questionOf(given, positionals[0], plan));
  const { as, endpoint = usualEndpoint(plan, question, as === "grpc") } = values as AskChoices;
  const model = asked(plan, question.model);
  requirePassedOn(model, question, endpoint);
  const profile = (question.pipeline && model.pipelines[question.pipeline]) ?? model.profile;
  const request =
    endpoint === "gateway"
      ? gatewayRequest("http://127.0.0.1:8080", question, false)
      : tritonRequest(profile, { http: "http://127.0.0.1:8000", grpc: "127.0.0.1:8001" }, question);
  return {
    path: new URL(request.url).pathname,
    body: request.body,
    printed: as === undefined ? "" : PRINTERS[as](request, question.images),
  };
}

const folder = mkdtempSync(join(tmpdir(), "engine-room-walkthroughs-"));
const picture = join(folder, "picture.png");
writeFileSync(picture, SAMPLE_IMAGE_DATA_URL.split(",")[1] ?? "", "base64");

afterAll(() => rmSync(folder, { recursive: true }));

/** A picture's file is the reader's own. */
const withFiles = (values: AskValues): AskValues => ({
  ...values,
  image: values.image?.map((image) => (/^https?:/.test(image) ? image : picture)),
  ...(values.video && { video: picture }),
});

/** So are the frames of a video. */
const withFrames = (question: Question): Question => {
  const { video } = question;
  if (video === undefined) return question;
  const frames = Array<string>(video.frameCount ?? 1).fill("/9j/");
  return { ...question, video: { ...video, frames: `data:video/jpeg;base64,${frames.join(",")}` } };
};

describe.each(pages)("docs/walkthroughs/%s.md", (page) => {
  const text = textOf(page);
  const [, stack] = /`cp examples\/\S+\.yaml Pulumi\.([\w-]+)\.yaml`/.exec(text) ?? [];
  const lines = codesOf(text).filter((code) => code.startsWith(COMMAND));
  const known = knownText(page);
  const rows = rowsOf(page);

  test("every row has the document's command, ours, and the difference", () => {
    expect(rows.length).toBeGreaterThan(10);
    expect(rows.filter((cells) => cells.length !== 3 || cells.includes(""))).toEqual([]);
  });

  test.each(lines)("the command line is valid: %s", async (line) => {
    expect((await parsed(line)).values.stack).toBe(stack);
  });

  test.each(rows)("the equivalent of %s is planned, recorded or sent", async (_left, cell = "") => {
    let request: Awaited<ReturnType<typeof requestOf>> | undefined;
    let parts: Values = {};
    let printed = "";
    const unknown: string[] = [];
    for (const code of codesOf(cell)) {
      if (code.startsWith(`${COMMAND}ask `)) request = await requestOf(page, code, parts);
      else if (code.startsWith(COMMAND))
        printed += code.endsWith(EXPLAINS) ? await explained(page, code) : "";
      else if (request?.printed.includes(code) || isIn(printed, code)) continue;
      else if (request !== undefined && /^\/v[12]\//.test(code)) expect(request.path).toBe(code);
      else if (request !== undefined && code.startsWith("{"))
        expect(request.body).toMatch(new RegExp(`^${pattern(code)}$`));
      else if (!isIn(known, code) && !stackFileKeys.has(code)) {
        const part: unknown = parse(code);
        if (isMapping(part)) parts = merged(parts, part);
        else unknown.push(code);
      }
    }
    const planned = Object.keys(parts).length > 0 ? commandsOf(planWith(page, parts)) : "";
    expect(unknown.filter((code) => !isIn(planned, code))).toEqual([]);
  });
});
