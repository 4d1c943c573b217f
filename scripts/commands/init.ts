/** Asks what a new stack needs, on a terminal or by options, and writes its file. */
import { existsSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import * as prompts from "@clack/prompts";
import { ConfigError } from "../../infra/problems.ts";
import { UsageError, UserError } from "../errors.ts";
import {
  areGated,
  type Choice,
  type Details,
  isOnAws,
  isOnCpu,
  largestMachine,
  modelsOf,
  type Offer,
  offers,
  PLACES,
  type Place,
  planned,
  stackFileText,
} from "../init/new-stack.ts";
import { projectRoot, type StackReference, stackOptions, stackReference } from "../program/stack-file.ts";
import { defineCommand, EXIT } from "./command.ts";

const SCHEMA = join(projectRoot, "docs/stack-file.schema.json");

/** A value of {@link Details}. */
interface DetailQuestion {
  /** Where the value is in the stack file. */
  readonly path: string;
  readonly option: string;
  readonly message: string;
  readonly example: string;
  /** Absent: there is no default. */
  readonly initial?: string;
  isAsked(choice: Choice): boolean;
}

const DETAILS: Readonly<Record<keyof Details, DetailQuestion>> = {
  account: {
    ...{
      path: "account",
      option: "--account",
      message: "Number of the AWS account",
      example: "111122223333",
    },
    isAsked: ({ where }) => isOnAws(where),
  },
  region: {
    ...{ path: "region", option: "--region", message: "Region", example: "us-east-1", initial: "us-east-1" },
    isAsked: ({ where }) => isOnAws(where),
  },
  apiCidr: {
    ...{ path: "access.apiCidrs", option: "--api-cidr", example: "203.0.113.7/32" },
    message: "Network that reaches the cluster's API, such as your own address",
    isAsked: ({ where }) => where === "eks",
  },
  registry: {
    ...{ path: "images.registry", option: "--registry", example: "registry.example.org/engine-room" },
    message: "Registry from which the cluster pulls images",
    isAsked: ({ where }) => where === "kubernetes",
  },
  host: {
    ...{ path: "host.uri", option: "--host", example: "ssh://ubuntu@gpu.example.org" },
    message: "Docker engine",
    initial: "unix:///var/run/docker.sock",
    isAsked: ({ where }) => where === "docker",
  },
  hubToken: {
    ...{ path: "hub", option: "--hub-token-at", example: "/etc/engine-room/hub-token" },
    message:
      "Where the token of the model hub is: a file of the Docker host, a Secret of the cluster, or an ARN",
    isAsked: ({ models }) => areGated(models),
  },
};

const MACHINE_OPTIONS = { aws: "--instance-type", own: "--gpu" } as const;

export const command = defineCommand({
  argument: { name: "[name]", text: "name of the new stack" },
  options: {
    "--where <place>": { text: "where it runs", choices: Object.keys(PLACES) as Place[] },
    "--model <model...>": "model of the catalogue; may be given more than once",
    "--instance-type <type>": "machine on AWS, such as g5.4xlarge",
    "--gpu <gpu>": "GPU of your own machine, such as L40S, or 2xL40S for two",
    "--account <number>": "number of the AWS account",
    "--region <region>": "AWS region",
    "--api-cidr <network>": "network that reaches the API of a cluster on AWS",
    "--registry <address>": "registry from which a cluster pulls images",
    "--host <uri>": "Docker engine: unix:// or ssh://",
    "--hub-token-at <place>": "where the model hub's token is, for gated models",
    "--config-file <file>": "file to write (default: Pulumi.<name>.yaml)",
    "-y, --yes": "ask nothing: the cheapest machine that fits, and defaults",
  },
  notes: ["A file that exists is never overwritten. Without a terminal nothing is asked."],
  takesNoStack: true,
  async run({ values, positionals }) {
    const asks = values.yes !== true && process.stdin.isTTY && process.stdout.isTTY;
    const answers: Answers = async ({ given, ask, initial, missing }) => {
      if (given !== undefined) return given;
      if (asks) return answered(await ask());
      if (initial !== undefined) return initial;
      throw new UsageError(missing);
    };
    const where = await answers({
      given: values.where,
      ask: () => select("Where does the stack run?", Object.entries(PLACES) as [Place, string][]),
      missing: "--where is missing.",
    });
    const models = await chosenModels(answers, where, values.model);
    const details = { ...values, hubToken: values.hubTokenAt };
    const choice = await withDetails(answers, { where, models, details: {} }, details);
    const offer = await chosenOffer(answers, choice, { aws: values.instanceType, own: values.gpu });
    const reference = (name: string) => stackReference(name, values.configFile);
    const name = await answers({
      given: positionals[0],
      ask: () =>
        text({
          message: "Name of the stack",
          initial: `my-${where}`,
          mistake: (typed) => nameMistake(() => reference(typed)),
        }),
      initial: `my-${where}`,
      missing: "",
    });
    return write(reference(name), offer, choice, asks);
  },
});

/** An answer: of the option, of the user, or the default. @throws UsageError where there is none of them. */
type Answers = <Value>(question: {
  readonly given: Value | undefined;
  readonly ask: () => Promise<Value | symbol>;
  readonly initial?: Value | undefined;
  readonly missing: string;
}) => Promise<Value>;

function answered<Value>(value: Value | symbol): Value {
  if (prompts.isCancel(value)) throw new UserError("Nothing was written.");
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

/** @param mistake - Of a text; undefined: it is right. */
function text(question: {
  readonly message: string;
  readonly example?: string;
  readonly initial?: string | undefined;
  readonly mistake: (text: string) => string | undefined;
}): Promise<string | symbol> {
  const { message, example, initial, mistake } = question;
  return prompts.text({
    message,
    ...(example === undefined ? {} : { placeholder: example }),
    ...(initial === undefined ? {} : { initialValue: initial }),
    validate: (value) => mistake(value ?? ""),
  });
}

function chosenModels(
  answers: Answers,
  where: Place,
  given: readonly string[] | undefined,
): Promise<readonly string[]> {
  const names = modelsOf(where);
  return answers<readonly string[]>({
    given,
    ask: () =>
      prompts.multiselect({
        message: "Which models does it serve? Space selects, Enter confirms.",
        options: names.map((value) => ({ value })),
      }),
    initial: names.length === 1 ? names : undefined,
    missing: `--model is missing: ${names.join(", ")}.`,
  });
}

async function withDetails(answers: Answers, start: Choice, given: Details): Promise<Choice> {
  let choice = start;
  for (const [key, question] of Object.entries(DETAILS) as [keyof Details, DetailQuestion][]) {
    const { option, path, message, example, initial } = question;
    if (!question.isAsked(choice)) {
      if (given[key] !== undefined)
        throw new UsageError(`${option} has no effect with --where ${choice.where}.`);
      continue;
    }
    const before = choice;
    const extended = (value: string) => ({ ...before, details: { ...before.details, [key]: value } });
    const value = await answers({
      given: given[key],
      ask: () => text({ message, example, initial, mistake: (typed) => mistakeAt(path, extended(typed)) }),
      initial,
      missing: `${option} is missing: ${message}, such as ${example}.`,
    });
    choice = extended(value);
  }
  return choice;
}

/** What the plan says of a value, whatever it says of others. */
function mistakeAt(path: string, choice: Choice): string | undefined {
  try {
    planned(choice, largestMachine(choice.where));
    return undefined;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const found = error.problems.find((problem) => problem.path.startsWith(path));
    return found === undefined ? undefined : `${found.reason} ${found.fix}`;
  }
}

async function chosenOffer(
  answers: Answers,
  choice: Choice,
  given: { readonly aws: string | undefined; readonly own: string | undefined },
): Promise<Offer> {
  const kind = isOnAws(choice.where) ? "aws" : "own";
  const other = kind === "aws" ? "own" : "aws";
  const isOnGpu = !isOnCpu(choice.models);
  if (given[other] !== undefined || (given[kind] !== undefined && !isOnGpu))
    throw new UsageError(`${MACHINE_OPTIONS[given[other] === undefined ? kind : other]} has no effect here.`);
  if (!isOnGpu) return planned(choice, "");
  const named = given[kind];
  if (named !== undefined)
    return planned(choice, kind === "aws" || /^\d+x/.test(named) ? named : `1x${named}`);
  const found = offers(choice);
  const [cheapest] = found;
  // Its problems say what keeps every machine from being offered.
  if (cheapest === undefined) return planned(choice, largestMachine(choice.where));
  const machine = await answers({
    given: undefined,
    ask: () =>
      select(
        kind === "aws" ? "Which machine?" : "Which GPUs does the machine have?",
        found.map((each) => [each.machine, `${each.machine}: ${each.hint}`]),
      ),
    // Which GPUs are in a machine of one's own, its owner knows.
    initial: kind === "aws" ? cheapest.machine : undefined,
    missing: `--gpu is missing: ${found.map((each) => each.machine).join(", ")}.`,
  });
  return found.find((each) => each.machine === machine) ?? cheapest;
}

function nameMistake(reference: () => StackReference): string | undefined {
  try {
    refuseExisting(reference().configFile);
    return undefined;
  } catch (error) {
    return error instanceof ConfigError ? error.problems[0]?.reason : (error as Error).message;
  }
}

function refuseExisting(file: string): void {
  if (existsSync(file))
    throw new UserError(`${basename(file)} exists already; choose another name, or edit the file.`);
}

async function write(
  stack: StackReference,
  { values, hint }: Offer,
  { models }: Choice,
  asks: boolean,
): Promise<number> {
  const { configFile } = stack;
  refuseExisting(configFile);
  const file = basename(configFile);
  const commands = ["plan", "up"].map((verb) => `npx engine-room ${verb} ${stackOptions(stack)}`);
  const schema = relative(dirname(configFile), SCHEMA);
  const content = stackFileText(values, commands, schema.startsWith("..") ? schema : `./${schema}`);
  if (asks) {
    prompts.note(content, file);
    if (!answered(await prompts.confirm({ message: `Write ${file}?` })))
      throw new UserError("Nothing was written.");
  }
  writeFileSync(configFile, content, { flag: "wx" });
  const next = commands.map((line) => `  ${line}\n`).join("");
  process.stdout.write(`Wrote ${file}: ${models.join(", ")}; ${hint}.\nNext:\n${next}`);
  return EXIT.ok;
}
