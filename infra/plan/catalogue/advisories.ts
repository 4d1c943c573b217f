/**
 * Known vulnerabilities of Triton Inference Server and TensorRT-LLM since 24.02, after NVIDIA's security bulletins. Each has the
 * bulletin's own severity; the releases that have it are those before `fixedIn`, since the bulletins end every range with the
 * release before it. scripts/catalogue/update-advisories.ts lists the differences between data/advisories.json and the bulletins.
 */
import file from "./data/advisories.json" with { type: "json" };
import type { Release } from "./types.ts";

export interface Advisory {
  /** Such as `CVE-2025-23310`. */
  readonly id: string;
  readonly severity: "critical" | "high" | "medium" | "low";
  readonly component: "triton" | "tensorRtLlm";
  /** First container tag without it, or first TensorRT-LLM version. */
  readonly fixedIn: string;
  readonly summary: string;
  /** URL of the bulletin. */
  readonly source: string;
}

/** What data/advisories.json holds. */
export interface AdvisoryFile {
  /** Day of the newest bulletin that was read, ISO 8601. */
  readonly asOf: string;
  readonly source: string;
  /** Oldest bulletin first, then by the release that fixes them. */
  readonly advisories: readonly AdvisoryRow[];
  /** Ids of parts that no stack runs, with the part. */
  readonly leftOut: Readonly<Record<string, string>>;
}

interface AdvisoryRow extends Omit<Advisory, "source"> {
  /** Path in NVIDIA's repository of bulletins: year and answer id. */
  readonly bulletin: string;
}

export const advisories: readonly Advisory[] = (file as AdvisoryFile).advisories.map(
  ({ bulletin, ...advisory }) => ({
    ...advisory,
    source: `https://github.com/NVIDIA/product-security/blob/main/${bulletin}/${bulletin.split("/")[1]}.md`,
  }),
);

/** Advisories whose fix a release does not have. A fix in a pre-release counts from that pre-release on. */
export function openAdvisories(release: Release): readonly Advisory[] {
  return advisories.filter(({ component, fixedIn }) =>
    component === "tensorRtLlm"
      ? compareTensorRtLlmVersions(release.tensorRtLlm, fixedIn) < 0
      : release.tag < fixedIn,
  );
}

/**
 * Negative when `a` is the older one. `1.3.0rc2` comes before `1.3.0`, `0.17.0.post1` after `0.17.0`; missing parts are 0.
 *
 * @throws RangeError where one is no version of TensorRT-LLM.
 */
export function compareTensorRtLlmVersions(a: string, b: string): number {
  const [left, right] = [versionParts(a), versionParts(b)];
  const length = Math.max(left.numbers.length, right.numbers.length);
  for (let index = 0; index < length; index += 1) {
    const difference = (left.numbers[index] ?? 0) - (right.numbers[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return left.candidate === right.candidate ? left.post - right.post : left.candidate - right.candidate;
}

interface VersionParts {
  readonly numbers: readonly number[];
  /** Number of a release candidate; greater than any other for a release. */
  readonly candidate: number;
  readonly post: number;
}

function versionParts(version: string): VersionParts {
  const match = /^(\d+(?:\.\d+)*)(?:rc(\d+))?(?:\.post(\d+))?$/.exec(version);
  if (match === null)
    throw new RangeError(`${version} is no version of TensorRT-LLM, such as 0.20.0 or 1.3.0rc2.`);
  const [, numbers = "", candidate, post = "0"] = match;
  return {
    numbers: numbers.split(".").map(Number),
    candidate: candidate === undefined ? Number.MAX_SAFE_INTEGER : Number(candidate),
    post: Number(post),
  };
}
