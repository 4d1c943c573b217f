/** Asks for the values of a new stack, on a terminal or by options, and writes its file. */
import { existsSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import * as prompts from "@clack/prompts";
import { GPU_NAMES } from "../../infra/plan/catalogue/gpus.ts";
import { machineTypes } from "../../infra/plan/catalogue/machines.ts";
import { unknownInstanceType } from "../../infra/plan/resolve/names.ts";
import { ConfigError } from "../../infra/problems.ts";
import { nameHint, UsageError, UserError } from "../errors.ts";
import {
  areGated,
  type Choice,
  type Details,
  isOnAws,
  largestMachine,
  modelsOf,
  type Offer,
  offers,
  PLACES,
  type Place,
  planned,
  stackFileText,
  wayOf,
  wayWords,
} from "../init/new-stack.ts";
import { projectRoot, stackOptions, stackReference, typedPath } from "../program/stack-file.ts";
import { defineCommand } from "./command.ts";

const DETAIL_OPTIONS = {
  "--account <number>": "number of the AWS account",
  "--region <region>": "AWS region",
  "--api-cidr <network>": "network that may reach the API of a cluster on AWS, often your own address",
  "--registry <address>": "registry from which a cluster pulls images",
  "--host <uri>": "Docker engine: unix:// or ssh://",
  "--hub-token-at <place>":
    "where the model hub's token is, for gated models: a file of the Docker host, a Secret of the cluster, or an ARN",
} as const;

interface DetailQuestion {
  readonly flags: keyof typeof DETAIL_OPTIONS;
  /** Path of the value in the stack file. */
  readonly path: string;
  readonly example: string;
  /** Absent: there is no default. */
  readonly initial?: string;
  isAsked(choice: Choice): boolean;
}

const DETAILS: Readonly<Record<keyof Details, DetailQuestion>> = {
  account: {
    flags: "--account <number>",
    path: "account",
    example: "111122223333",
    isAsked: ({ where }) => isOnAws(where),
  },
  region: {
    flags: "--region <region>",
    path: "region",
    example: "us-east-1",
    initial: "us-east-1",
    isAsked: ({ where }) => isOnAws(where),
  },
  apiCidr: {
    flags: "--api-cidr <network>",
    path: "access.apiCidrs",
    example: "203.0.113.7/32",
    isAsked: ({ where }) => where === "eks",
  },
  registry: {
    flags: "--registry <address>",
    path: "images.registry",
    example: "registry.example.org/engine-room",
    isAsked: ({ where }) => where === "kubernetes",
  },
  host: {
    flags: "--host <uri>",
    path: "host.uri",
    example: "ssh://ubuntu@gpu.example.org",
    initial: "unix:///var/run/docker.sock",
    isAsked: ({ where }) => where === "docker",
  },
  hubTokenAt: {
    flags: "--hub-token-at <place>",
    path: "hub",
    example: "/etc/engine-room/hub-token",
    isAsked: ({ models }) => areGated(models),
  },
};

export const command = defineCommand({
  argument: { name: "[name]", text: "name of the new stack" },
  options: {
    "--where <place>": {
      text: "where it runs; ec2 (or aws) is one machine on AWS, eks a cluster on AWS",
      choices: [...(Object.keys(PLACES) as Place[]), "aws" as const],
    },
    "--model <model...>": "model of the catalogue",
    "--instance-type <type>": "machine on AWS, such as g5.4xlarge",
    "--gpu <gpu>": "GPU of your own machine, such as L40S, or 2xL40S for two",
    ...DETAIL_OPTIONS,
    "--config-file <file>": "file to write (default: Pulumi.<name>.yaml)",
    "-y, --yes": "ask nothing: the cheapest machine that fits, and defaults",
  },
  notes: ["A file that exists is never overwritten. Without a terminal nothing is asked."],
  takesNoStack: true,
  async run({ values, positionals: [givenName] }) {
    const asks = values.yes !== true && process.stdin.isTTY && process.stdout.isTTY;
    const answers = new Answers(asks);
    const where = await answers.answer<Place>({
      given: values.where === "aws" ? "ec2" : values.where,
      ask: () => select("Where does the stack run?", Object.entries(PLACES) as [Place, string][]),
      missing: `--where is missing. Choose from ${Object.keys(PLACES).join(", ")}.`,
    });
    const names = modelsOf(where ?? "docker");
    const named = await answers.answer<readonly string[]>({
      given: values.model,
      ask: () =>
        prompts.multiselect({
          message: "Which models does it serve? Space selects, Enter confirms.",
          options: names.map((value) => ({ value, hint: wayWords(value) })),
        }),
      initial: names.length === 1 ? names : undefined,
      missing: `--model is missing. Choose from ${names.join(", ")}.`,
    });
    const elsewhere = modelsOf("docker").filter((name) => !names.includes(name));
    for (const model of named ?? [])
      if (elsewhere.includes(model))
        answers.refuse(
          `--where ${where} does not serve ${model}. Choose another place, or a model from ${names.join(", ")}.`,
        );
      else answers.requireKnown("--model", model, names);
    // Right names only: models decide which other options are needed.
    const models = named?.every((model) => names.includes(model)) ? named : [];
    if (wayOf(models) === undefined)
      answers.refuse(
        `--model: a stack serves all its models in one way, and these differ: ${models.map((model) => `${model} ${wayWords(model)}`).join(", ")}. Write a stack for each way.`,
      );
    if (values.gpu !== undefined) answers.requireKnown("--gpu", values.gpu.replace(/^\d+x/, ""), GPU_NAMES);
    if (values.instanceType !== undefined && machineTypes[values.instanceType] === undefined) {
      const { reason, fix } = unknownInstanceType("", values.instanceType, true);
      answers.refuse(`--instance-type: ${reason} ${fix}`);
    }
    if (where === undefined) refuseWrong(answers, models, values);
    const choice = where && (await withDetails(answers, { where, models, details: {} }, values));
    const offer = choice && (await chosenOffer(answers, choice, values.instanceType, values.gpu));
    const reference = (name: string) => newReference(name, values.configFile);
    const initial = `my-${where}`;
    const message = "Name of the stack";
    const mistake = (name: string) => mistakeOf(() => void reference(name));
    if (offer === undefined) {
      const ofName = givenName === undefined ? undefined : mistake(givenName);
      throw new UsageError([...answers.problems, ...(ofName === undefined ? [] : [ofName])].join("\n"));
    }
    const ask = () => text({ message, initial, mistake });
    const name = givenName ?? (asks ? answered(await ask()) : initial);
    const stack = reference(name);
    const { configFile } = stack;
    const file = typedPath(stack);
    const commands = ["plan", "up"].map((verb) => `npx engine-room ${verb} ${stackOptions(stack)}`);
    const schema = relative(dirname(configFile), join(projectRoot, "docs/stack-file.schema.json"));
    const content = stackFileText(offer.values, commands, schema.startsWith("..") ? schema : `./${schema}`);
    if (asks) {
      prompts.note(content, file);
      if (!answered(await prompts.confirm({ message: `Write ${file}?` }))) throw nothingWritten();
    }
    writeFileSync(configFile, content, { flag: "wx" });
    const next = commands.map((line) => `  ${line}\n`).join("");
    return { text: `Wrote ${file}: ${models.join(", ")}; ${offer.hint}.\nNext:\n${next}` };
  },
});

/** Answers of options and of the user. */
class Answers {
  /** Sentences on missing and wrong options, which are reported together. */
  readonly problems: string[] = [];
  readonly #asks: boolean;

  constructor(asks: boolean) {
    this.#asks = asks;
  }

  /** Answer of the option or of the user, or the default; undefined: it is missing. */
  async answer<Value>(question: {
    readonly given: Value | undefined;
    readonly ask: () => Promise<Value | symbol>;
    readonly initial?: Value | undefined;
    readonly missing: string;
  }): Promise<Value | undefined> {
    const { given, ask, initial, missing } = question;
    if (given !== undefined) return given;
    if (this.#asks) return answered(await ask());
    if (initial === undefined) this.refuse(missing);
    return initial;
  }

  /** @throws UsageError on a terminal, before further questions. */
  refuse(problem: string): void {
    this.problems.push(problem);
    if (this.#asks) throw new UsageError(problem);
  }

  /** Refuses another name with the nearest, or all of them. */
  requireKnown(option: string, value: string, names: readonly string[]): void {
    if (!names.includes(value))
      this.refuse(`Unknown value ${JSON.stringify(value)} of ${option}. ${nameHint(value, names)}`);
  }
}

const nothingWritten = () => new UserError("Nothing was written.");

function answered<Value>(value: Value | symbol): Value {
  if (prompts.isCancel(value)) throw nothingWritten();
  return value as Value;
}

/** @param rows - Values with their labels. */
function select<Value extends string>(
  message: string,
  rows: readonly (readonly [Value, string])[],
): Promise<Value | symbol> {
  const options = rows.map(([value, label]) => ({ value: value as string, label }));
  return prompts.select({ message, options, maxItems: 12 }) as Promise<Value | symbol>;
}

/** @param mistake - Returns the mistake in a text; undefined when the text is right. */
function text(question: {
  readonly message: string;
  readonly example?: string;
  readonly initial?: string | undefined;
  readonly mistake: (text: string) => string | undefined;
}): Promise<string | symbol> {
  const { message, example = "", initial = "", mistake } = question;
  const validate = (value: string | undefined) => mistake(value ?? "");
  return prompts.text({ message, placeholder: example, initialValue: initial, validate });
}

async function withDetails(answers: Answers, start: Choice, given: Details): Promise<Choice> {
  let choice = start;
  for (const [key, question] of Object.entries(DETAILS) as [keyof Details, DetailQuestion][]) {
    const { flags, path, example, initial, isAsked } = question;
    const [option = ""] = flags.split(" ");
    if (!isAsked(choice)) {
      // Only models say whether a token is needed.
      if (given[key] !== undefined && (key !== "hubTokenAt" || choice.models.length > 0))
        answers.refuse(`${option} has no effect with --where ${choice.where}.`);
      continue;
    }
    const before = choice;
    const extended = (value: string) => ({
      ...before,
      details: { ...before.details, [key]: withoutQuotes(value) },
    });
    const mistake = (typed: string) =>
      mistakeOf(() => void planned(extended(typed), largestMachine(before.where)), path);
    const message = DETAIL_OPTIONS[flags].replace(/^./, (letter) => letter.toUpperCase());
    const wrong = given[key] === undefined ? undefined : mistake(given[key]);
    if (wrong !== undefined) answers.refuse(`${option}: ${wrong}`);
    const value = await answers.answer({
      given: given[key],
      ask: () => text({ message, example, initial, mistake }),
      initial,
      missing: `${option} is missing: ${DETAIL_OPTIONS[flags]}, such as ${example}.`,
    });
    if (value !== undefined) choice = extended(value);
  }
  return choice;
}

/** A value with the quotes that a stack file needs around digits, or without. */
function withoutQuotes(value: string): string {
  return value.replace(/^"(.*)"$/, "$1");
}

/** Refuses values with the same mistake in each place that takes them, before the place is known. */
function refuseWrong(answers: Answers, models: readonly string[], given: Details): void {
  for (const [key, { flags, path, isAsked }] of Object.entries(DETAILS) as [
    keyof Details,
    DetailQuestion,
  ][]) {
    const value = given[key];
    if (value === undefined) continue;
    const details = { [key]: withoutQuotes(value) };
    const choices = (Object.keys(PLACES) as Place[]).map((where) => ({ where, models, details }));
    const [mistake, ...others] = choices
      .filter(isAsked)
      .map((choice) => mistakeOf(() => void planned(choice, largestMachine(choice.where)), path));
    if (mistake !== undefined && others.every((other) => other === mistake))
      answers.refuse(`${flags.split(" ")[0]}: ${mistake}`);
  }
}

/**
 * Returns the mistake in a value, whatever mistakes others have. @param path - Path of the value in the stack file;
 * `""`: any.
 */
function mistakeOf(use: () => void, path = ""): string | undefined {
  try {
    use();
    return undefined;
  } catch (error) {
    if (!(error instanceof ConfigError)) return (error as Error).message;
    const found = error.problems.find((problem) => problem.path.startsWith(path));
    return found === undefined ? undefined : `${found.reason} ${found.fix}`;
  }
}

/**
 * @returns undefined if an option is missing or wrong.
 * @throws ConfigError with the plan's problems if the machine does not hold the models.
 */
async function chosenOffer(
  answers: Answers,
  choice: Choice,
  instanceType: string | undefined,
  gpu: string | undefined,
): Promise<Offer | undefined> {
  const isRented = isOnAws(choice.where);
  const onCpu = wayOf(choice.models) === "cpu";
  if (instanceType !== undefined && (onCpu || !isRented))
    answers.refuse("--instance-type has no effect here.");
  if (gpu !== undefined && (onCpu || isRented)) answers.refuse("--gpu has no effect here.");
  if (answers.problems.length > 0) {
    // GPUs that hold the models are known once all else is right.
    if (gpu === undefined && !isRented && !onCpu && choice.models.length > 0)
      answers.refuse("--gpu is missing: GPU of your own machine, such as L40S, or 2xL40S for two.");
    return undefined;
  }
  if (onCpu) return planned(choice, "");
  const named = gpu === undefined || /^\d+x/.test(gpu) ? (gpu ?? instanceType) : `1x${gpu}`;
  if (named !== undefined) return planned(choice, named);
  const found = offers(choice);
  const [cheapest] = found;
  // The problems explain why no machine is offered.
  if (cheapest === undefined) return planned(choice, largestMachine(choice.where));
  const machine = await answers.answer({
    given: undefined,
    ask: () =>
      select(
        isRented ? "Which machine?" : "Which GPUs does the machine have?",
        found.map((each) => [each.machine, `${each.machine}: ${each.hint}`]),
      ),
    // Only the owner of a machine knows its GPUs.
    initial: isRented ? cheapest.machine : undefined,
    missing: `--gpu is missing. Choose from ${smallestOf(found).join(", ")}, or more GPUs of one kind, such as 2xL40S.`,
  });
  return found.find((each) => each.machine === machine);
}

/** For each GPU the first of the offers, which has the fewest of it. */
function smallestOf(found: readonly Offer[]): readonly string[] {
  const gpu = (machine: string) => machine.replace(/^\d+x/, "");
  const machines = found.map((each) => each.machine);
  return machines.filter(
    (machine, index) => machines.findIndex((other) => gpu(other) === gpu(machine)) === index,
  );
}

/** @throws UserError if its file exists. */
function newReference(name: string, configFile: string | undefined) {
  const stack = stackReference(name, configFile);
  if (existsSync(stack.configFile))
    throw new UserError(
      `${typedPath(stack)} exists already; choose another name or --config-file, or edit the file.`,
    );
  return stack;
}
