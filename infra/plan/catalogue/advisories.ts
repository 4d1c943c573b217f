/**
 * Known vulnerabilities of Triton Inference Server and TensorRT-LLM since 24.02, after NVIDIA's security bulletins. Each has the
 * bulletin's own severity; the releases that have it are those before `fixedIn`, since the bulletins end every range with the
 * release before it. scripts/catalogue/update-advisories.ts lists the differences between data/advisories.json and the bulletins.
 */
import file from "./data/advisories.json" with { type: "json" };
import { compareVersions } from "./releases.ts";
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

/** Content of data/advisories.json. */
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
    component === "tensorRtLlm" ? compareVersions(release.tensorRtLlm, fixedIn) < 0 : release.tag < fixedIn,
  );
}
