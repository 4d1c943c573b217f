/**
 * Flags of the programs that build engines, by version of TensorRT-LLM, from their argument parsers at the tags of
 * https://github.com/NVIDIA/TensorRT-LLM: examples/<family>/convert_checkpoint.py, examples/quantization/quantize.py,
 * tensorrt_llm/commands/build.py with tensorrt_llm/plugin/plugin.py, and of the visual engine examples/multimodal/build_visual_engine.py
 * or tensorrt_llm/tools/multimodal_builder.py.
 *
 * data/build-flags.json has the versions that were read, with their commits, and `main`, the branch after them, with a commit for
 * each file. A flag has the first version with it, and ` until ` with the first without it. Tags from 0.17 on could not be read:
 * flags that 0.16.0 and `main` share are assumed for the versions between them.
 */
import file from "./data/build-flags.json" with { type: "json" };
import { compareVersions } from "./releases.ts";

/** A converter by its family, or another program. */
export type BuildProgram = keyof typeof file.programs;

const VERSIONS = Object.keys(file.read);
const SETS = [...VERSIONS, "main"];

/** `switch`: no value; `toggle`: `enable` or `disable`; `list`: several values. */
export type FlagKind = "switch" | "toggle" | "value" | "list";

/** Flags by name, without dashes. */
type FlagSet = ReadonlyMap<string, FlagKind>;

/** Known flags of a program in a version. */
export interface BuildFlags {
  /** Flags of the version, or of the last version before it that was read. */
  readonly flags: FlagSet;
  /** For a version that was not read: the version of `flags`, and the flags of the branch main after it. */
  readonly between?: { readonly before: string; readonly after: FlagSet };
}

export function buildFlags(program: BuildProgram, tensorRtLlm: string): BuildFlags {
  const index = VERSIONS.findLastIndex((version) => compareVersions(version, tensorRtLlm) <= 0);
  const before = VERSIONS[index];
  if (before === undefined) throw new Error(`TensorRT-LLM ${tensorRtLlm} is older than all that was read.`);
  const flags = flagsAt(program, index);
  if (compareVersions(before, tensorRtLlm) === 0) return { flags };
  return { flags, between: { before, after: flagsAt(program, index + 1) } };
}

function flagsAt(program: BuildProgram, index: number): FlagSet {
  const { switches, toggles, values, lists } = file.programs[program];
  const named = (ranges: Readonly<Record<string, string>>, kind: FlagKind) =>
    Object.entries(ranges)
      .filter(([, text]) => text.split(", ").some((range) => holds(range, index)))
      .map(([name]) => [name, kind] as const);
  return new Map([
    ...named(switches, "switch"),
    ...named(toggles, "toggle"),
    ...named(values, "value"),
    ...named(lists, "list"),
  ]);
}

function holds(range: string, index: number): boolean {
  const [since = "", until] = range.split(" until ");
  return SETS.indexOf(since) <= index && (until === undefined || index < SETS.indexOf(until));
}
