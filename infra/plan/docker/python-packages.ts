/** Python packages that the image of engines gets on top of its base: requirements files with a version and hashes for each. */
import type { Release } from "../catalogue/types.ts";
import type { ModelSpec } from "../spec.ts";

/** File of a folder of templates whose packages the image gets. */
export const REQUIREMENTS_FILE = "requirements.txt";

export interface Requirement {
  /** As PyPI compares names: lower case, with `-` for `_` and `.`. */
  readonly name: string;
  readonly version: string;
  /** SHA-256 of files that pip may take, 64 hexadecimal digits each. */
  readonly hashes: readonly string[];
}

/** A line that pip would refuse, or that would give another image on another day. */
export interface RefusedLine {
  /** From 1 on. */
  readonly line: number;
  readonly reason: string;
  readonly fix: string;
}

/** https://packaging.python.org/en/latest/specifications/version-specifiers/#appendix-parsing-version-strings-with-regular-expressions */
const VERSION =
  /v?(?:\d+!)?\d+(?:\.\d+)*(?:[-_.]?(?:alpha|a|beta|b|preview|pre|c|rc)[-_.]?\d*)?(?:-\d+|[-_.]?(?:post|rev|r)[-_.]?\d*)?(?:[-_.]?dev[-_.]?\d*)?(?:\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?/;
const REQUIREMENT = new RegExp(
  `^([a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)(?:\\[[a-z0-9,._-]*\\])?==(${VERSION.source})$`,
  "i",
);
const HASH = /^--hash=sha256:([0-9a-f]{64})$/;

/**
 * Packages that stay as the base has them: TensorRT-LLM's requirements.txt pins their versions, its wheel is compiled against them, or
 * transformers, which it pins, compares them when it is imported.
 * https://github.com/NVIDIA/TensorRT-LLM/blob/000867d9b1ad62f3de1e54e111c094da492a5626/requirements.txt
 * https://github.com/huggingface/transformers/blob/0023a9af404e64943fc0a36fa92ef87763744a7e/src/transformers/dependency_versions_check.py
 */
const OF_THE_SERVER =
  /^(torch|torchvision|torch-c-dlpack-ext|triton|tensorrt(-.+)?|numpy|mpi4py|h5py|transformers|tokenizers|huggingface-hub|datasets|flashinfer-python|xgrammar|llguidance|openai-harmony|mistral-common|apache-tvm-ffi|(cuda|nvidia)-.+)$/;

const WITH_HASHES =
  "Write NAME==VERSION --hash=sha256:…, as `uv pip compile --generate-hashes` does for the image's Python.";

/** Why a line is refused, the first that applies; nothing of the line but an option's name is shown, as addresses may have passwords. */
function refusal([first = "", ...others]: readonly string[]): Pick<RefusedLine, "reason" | "fix"> | null {
  if (first.startsWith("-"))
    return {
      reason: `is the option ${/^(--[a-z-]*|-.?)/.exec(first)?.[0]}, and the image takes only packages there.`,
      fix: "Remove the line; an index of your own belongs in the settings of pip, the build's secret pip.conf.",
    };
  if ([first, ...others].some((word) => word.includes(";")))
    return {
      reason: "has a condition, and the image has one Python on one platform.",
      fix: "Remove the condition, or the line if it is not met.",
    };
  const [, name] = REQUIREMENT.exec(first) ?? [];
  if (name === undefined)
    return {
      reason: "is not NAME==VERSION: the same files would give another image on another day.",
      fix: WITH_HASHES,
    };
  if (others.length === 0 || !others.every((word) => HASH.test(word)))
    return {
      reason: `needs one or more --hash=sha256:… after ${first}, and nothing else.`,
      fix: WITH_HASHES,
    };
  if (OF_THE_SERVER.test(normalized(name)))
    return {
      reason: `would replace ${name}, whose version TensorRT-LLM in the image depends on.`,
      fix: "Remove the line; the image has the package.",
    };
  return null;
}

/** Reads a requirements file as pip does, with comments, and lines that a backslash continues. */
export function readRequirements(text: string): {
  readonly requirements: readonly Requirement[];
  readonly refused: readonly RefusedLine[];
} {
  const requirements: Requirement[] = [];
  const refused: RefusedLine[] = [];
  const code = text.replaceAll("\r\n", "\n").replace(/(^|[ \t])#.*$/gm, "");
  for (const { 0: all, index } of code.matchAll(/(?:.*\\\n)*.*/g)) {
    const words = all.replaceAll("\\\n", " ").split(/\s+/).filter(Boolean);
    if (words.length === 0) continue;
    const problem = refusal(words);
    const [first = "", ...hashes] = words;
    const [, name = "", version = ""] = REQUIREMENT.exec(first) ?? [];
    if (problem !== null) refused.push({ line: code.slice(0, index).split("\n").length, ...problem });
    else
      requirements.push({
        name: normalized(name),
        version,
        hashes: hashes.flatMap((word) => HASH.exec(word)?.[1] ?? []),
      });
  }
  return { requirements, refused };
}

function normalized(name: string): string {
  return name.toLowerCase().replace(/[-_.]+/g, "-");
}

export function releaseRequirements({ pythonUpgrades = [] }: Pick<Release, "pythonUpgrades">) {
  return readRequirements(pythonUpgrades.join("\n")).requirements;
}

/** Packages that the model's own files need. */
export function modelRequirements({ serving }: Pick<ModelSpec, "serving">): readonly Requirement[] {
  return readRequirements(serving.templateFiles?.[REQUIREMENTS_FILE] ?? "").requirements;
}

/** Lines for pip, sorted, one for each package and version, with the hashes of all: pip takes only hashes that duplicates share. */
export function requirementLines(requirements: readonly Requirement[]): readonly string[] {
  const hashes = new Map<string, Set<string>>();
  for (const { name, version, hashes: own } of requirements) {
    const pinned = `${name}==${version}`;
    hashes.set(pinned, new Set([...(hashes.get(pinned) ?? []), ...own]));
  }
  return [...hashes]
    .map(([pinned, all]) => [pinned, ...[...all].toSorted().map((one) => `--hash=sha256:${one}`)].join(" "))
    .toSorted();
}
