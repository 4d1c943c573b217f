/** A user's own flags against the argument parsers of the release, and against the flags that other keys decide. */
import { nearestName } from "../../problems.ts";
import { type BuildFlags, buildFlags, type FlagKind } from "../catalogue/build-flags.ts";
import {
  deciders,
  FLAG_SECTIONS,
  type FlagSection,
  flagProgram,
  memoryFlags,
} from "../engine/extra-flags.ts";
import { unsupportedReason } from "../engine/recipes.ts";
import type { ExtraFlags, ModelSpec } from "../spec.ts";
import { type Check, eachModel, type Finding } from "./check.ts";
import { oneOf } from "./shared-messages.ts";

export const engineFlagChecks = {
  flagsHaveProgram: eachModel(({ engine: { model, row, extraFlags = {} }, serving, path }) =>
    FLAG_SECTIONS.map((section) => {
      if (extraFlags[section] === undefined) return [];
      const isVisual = section === "vision" && row.vision === undefined;
      if (serving.runtime === "engine" && !isVisual) return [];
      return {
        path: `${path}.engine.extraFlags.${section}`,
        reason: isVisual
          ? `${model} is a text model: it has no visual engine to build.`
          : `No engine is built for runtime ${serving.runtime}.`,
        fix: isVisual ? "Remove it." : "Remove it, or write runtime: engine.",
      };
    }),
  ),

  flagsAreTheUsers: eachModel((model) =>
    eachFlag(model, ({ section, name, path }) => {
      const keys = deciders(section, name, model.engine);
      if (keys === undefined) return null;
      if (typeof keys === "string") return { path, reason: keys, fix: "Remove it." };
      return {
        path,
        reason:
          keys.length === 0
            ? `The plan decides --${name}: builds and servers know the folders of an engine by it.`
            : `The plan sets --${name} by ${keys.join(" and ")} of the model, and counts memory and machines by it.`,
        fix:
          keys.length === 0
            ? "Remove it."
            : `Remove it, and set ${oneOf(keys.map((key) => `${model.path}.${key}`))}.`,
      };
    }),
  ),

  flagsAreOfRelease: eachModel((model) =>
    eachFlag(model, ({ section, name, value, path }) => {
      const { engine } = model;
      if (unsupportedReason(engine) !== null || deciders(section, name, engine) !== undefined) return null;
      const { program, title } = flagProgram(section, engine);
      const version = engine.release.tensorRtLlm;
      const known = buildFlags(program, version);
      const kinds = [known.flags, ...(known.between === undefined ? [] : [known.between.after])].map(
        (flags) => flags.get(name),
      );
      const kind = kinds.find((each) => each !== undefined);
      if (kind === undefined) return { path, ...unknownFlag(name, title, version, known) };
      if (new Set(kinds).size > 1) return { path, ...openFlag(name, title, version, known) };
      if (KINDS[kind].takes(value)) return null;
      return {
        path,
        reason: `--${name} of ${title} takes ${KINDS[kind].words} in TensorRT-LLM ${version}.`,
        fix: KINDS[kind].fix(name),
      };
    }),
  ),

  flagsChangeMemory: eachModel(({ engine, serving, path }) => {
    const flags = memoryFlags(engine);
    if (serving.runtime !== "engine" || flags.length === 0) return [];
    return {
      severity: "note",
      path: `${path}.engine.extraFlags`,
      reason: `The estimate of memory does not count ${flags.join(", ")}, which may change it.`,
      fix: "Compare it with the memory that the server uses, and leave room if the verdict is tight.",
    };
  }),
} satisfies Record<string, Check>;

type Value = ExtraFlags[string];

/** Values that a flag accepts. */
const KINDS: Readonly<
  Record<
    FlagKind,
    {
      readonly words: string;
      readonly takes: (value: Value) => boolean;
      readonly fix: (name: string) => string;
    }
  >
> = {
  switch: {
    words: "no value",
    takes: (value) => value === true,
    fix: (name) => `Write \`${name}: true\`, or remove it.`,
  },
  toggle: {
    words: "enable or disable",
    takes: (value) => value === "enable" || value === "disable",
    fix: (name) => `Write \`${name}: enable\` or \`${name}: disable\`.`,
  },
  value: {
    words: "one value",
    takes: (value) => value !== true && !Array.isArray(value),
    fix: () => "Write its value in place of true or of a list.",
  },
  list: {
    words: "a list of values",
    takes: (value) => value !== true,
    fix: (name) => `Write its values, such as \`${name}: [a, b]\`.`,
  },
};

interface Flag {
  readonly section: FlagSection;
  readonly name: string;
  readonly value: Value;
  readonly path: string;
}

/** Findings of each flag of a model that has a program for it. */
function eachFlag(model: ModelSpec, check: (flag: Flag) => Finding | null): readonly Finding[] {
  const { engine, serving, path } = model;
  if (serving.runtime !== "engine") return [];
  return FLAG_SECTIONS.filter((section) => section !== "vision" || engine.row.vision !== undefined).flatMap(
    (section) =>
      Object.entries(engine.extraFlags?.[section] ?? {}).flatMap(
        ([name, value]) =>
          check({ section, name, value, path: `${path}.engine.extraFlags.${section}.${name}` }) ?? [],
      ),
  );
}

const ASK_PROGRAM =
  "Ask the program's `--help` in the image before you build: with a flag that it lacks the build ends at once.";

function unknownFlag(
  name: string,
  title: string,
  version: string,
  { flags, between }: BuildFlags,
): Pick<Finding, "severity" | "reason" | "fix"> {
  const nearest = nearestName(name, [...flags.keys()]);
  const meant = nearest === undefined ? [] : [`Did you mean \`${nearest}\`?`];
  if (between === undefined)
    return {
      reason: `${title} of TensorRT-LLM ${version} has no --${name}.`,
      fix: meant[0] ?? "Remove it.",
    };
  return {
    severity: "warning",
    reason: `${title} of TensorRT-LLM ${version} was not read: neither that of ${between.before} nor that of the branch main after it has --${name}.`,
    fix: [...meant, ASK_PROGRAM].join(" "),
  };
}

/** A flag on which the versions before and after differ. */
function openFlag(
  name: string,
  title: string,
  version: string,
  { flags, between }: BuildFlags,
): Pick<Finding, "severity" | "reason" | "fix"> {
  const words = (kind: FlagKind | undefined) =>
    kind === undefined ? `has no --${name}` : `has --${name} with ${KINDS[kind].words}`;
  return {
    severity: "warning",
    reason: `${title} of TensorRT-LLM ${version} was not read: that of ${between?.before} ${words(flags.get(name))}, that of the branch main after it ${words(between?.after.get(name))}.`,
    fix: ASK_PROGRAM,
  };
}
