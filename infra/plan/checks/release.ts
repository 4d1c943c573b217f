/** The release: verified facts, end of support, advisories and its image. */
import { counted } from "../../problems.ts";
import { type Advisory, openAdvisories } from "../catalogue/advisories.ts";
import { compareVersions, isReleaseTag, llmapiSamples, releases } from "../catalogue/releases.ts";
import type { Release } from "../catalogue/types.ts";
import { type Checks, eachModel } from "./check.ts";

export const releaseChecks = {
  releaseIsVerified: ({ spec: { release, acceptUnverified } }) =>
    !release.verified &&
    !acceptUnverified && {
      path: "release",
      reason: `Not every fact about ${release.tag} is verified. ${release.note ?? ""}`.trim(),
      fix: `Use the newest verified release, ${newest(({ verified }) => verified)}, or write \`acceptUnverified: true\`.`,
    },

  runtimeOfRelease: eachModel(({ engine: { release, row }, serving, path }) => {
    // The repository of llmapi has a check of its own.
    if (serving.runtime !== "engine" || release.runtimes.includes("engine")) return [];
    const isServed = [release, row].every(({ runtimes }) => runtimes.includes("llmapi"));
    return {
      path: `${path}.runtime`,
      reason: `${release.tag} (TensorRT-LLM ${release.tensorRtLlm}) is not known to build or run TensorRT engines.`,
      fix: `Use ${newest(({ runtimes, verified }) => verified && runtimes.includes("engine"))} or an earlier release${isServed ? ", or write runtime: llmapi" : ""}.`,
    };
  }),

  samplingOfLlmapi: eachModel(({ engine: { release }, serving, path }) => {
    if (serving.runtime !== "llmapi" || llmapiSamples(release)) return [];
    return {
      severity: "warning",
      path: `${path}.runtime`,
      reason: `The LLM API of TensorRT-LLM ${release.tensorRtLlm} takes the most probable token each time: temperature, top-p and top-k of a request change nothing.`,
      fix: `Use a release from ${oldest(llmapiSamples)} on if answers are to vary.`,
    };
  }),

  advisories: ({ spec: { release } }) => {
    const open = openAdvisories(release);
    if (open.length === 0) return [];
    const last = Object.values<Release>(releases).at(-1) ?? release;
    return {
      severity: "warning",
      path: "release",
      reason: `${counted(open.length, "known vulnerability", "known vulnerabilities")}: ${severities(open).join(", ")}.`,
      isListedByFull: true,
      fix: `${fixedIn(last.tag, openAdvisories(last))} Allow only the gateway to reach Triton's ports.`,
    };
  },

  endOfLife: ({ spec: { release, models } }) =>
    release.endOfLife.map(({ runtime, statement, source }) => {
      const isUsed = models.some(({ serving }) =>
        runtime === "multimodal" ? serving.flavour === "multimodal" : serving.runtime === runtime,
      );
      if (!isUsed) return [];
      return {
        severity: "note",
        path: "release",
        reason: `${statement} ${source}`,
        fix:
          runtime === "engine"
            ? "No action is needed now; text models can move to `runtime: llmapi` on a newer release."
            : "No action is needed now; stay on 26.02 or an earlier release.",
      };
    }),

  imageOfRelease: ({ config: { image }, spec: { release } }) => {
    const { base } = image;
    if (base === undefined) return [];
    const path = "image.base";
    const tag = /\b\d\d\.\d\d\b/.exec(base.slice(base.lastIndexOf("/") + 1))?.[0];
    if (tag !== undefined && isReleaseTag(tag) && tag !== release.tag) {
      return {
        path,
        reason: `The image names ${tag}, and the stack is planned for ${release.tag}: an engine of one TensorRT-LLM does not load in another.`,
        fix: `Write \`release: "${tag}"\`, or an image of ${release.tag}.`,
      };
    }
    if (!/[:@][^/]+$/.test(base) || base.endsWith(":latest")) {
      return {
        path,
        reason:
          "Without a fixed tag or digest, builds and servers may run different images, and engines load only in the image that built them.",
        fix: "Add a tag or a digest.",
      };
    }
    if (tag === release.tag) return [];
    return {
      severity: "warning",
      path,
      reason: `Its name does not show that it has the versions of ${release.tag}: TensorRT-LLM ${release.tensorRtLlm}, TensorRT ${release.tensorRt ?? "unknown"}.`,
      fix: "Build it from that release, or write the `release` that it was built from. Engine builds fail if its TensorRT-LLM differs.",
    };
  },

  layoutOfImage: ({ config: { image } }) =>
    image.layout !== "ngc" &&
    image.base === undefined && {
      path: "image.layout",
      reason:
        "NVIDIA's image has the layout ngc; tritonrelease is the layout of images built by TensorRT-LLM's Dockerfile.",
      fix: "Name such an image in image.base, or write layout: ngc.",
    },
} satisfies Checks;

/** For machines whose driver the stack does not choose. */
export const driverChecks = {
  minimumDriver: ({ spec: { release } }) =>
    release.minimumDriver !== null && {
      severity: "note",
      path: "release",
      reason: `${release.tag} needs NVIDIA driver ${release.minimumDriver} or newer on the machines, or forward compatibility of a data-centre GPU (CUDA ${release.cuda ?? "unknown"}).`,
      fix: "Compare it with the driver version that nvidia-smi prints on a machine.",
    },
} satisfies Checks;

const SEVERITIES = ["critical", "high", "medium", "low"] as const satisfies readonly Advisory["severity"][];

/** `3 critical (CVE-…), 31 high`. */
function severities(open: readonly Advisory[]): string[] {
  return SEVERITIES.flatMap((severity) => {
    const ids = open.filter((advisory) => advisory.severity === severity).map(({ id }) => id);
    if (ids.length === 0) return [];
    // Critical ones by name: each is a reason to act today.
    return [`${ids.length} ${severity}${severity === "critical" ? ` (${ids.join(", ")})` : ""}`];
  });
}

/** @param tag - The newest release. @param left - Its vulnerabilities. */
export function fixedIn(tag: string, left: readonly Advisory[]): string {
  if (left.length === 0) return `${tag} has all fixes.`;
  return `No release has all fixes: ${tag} still has ${left.length} (${severities(left).join(", ")}), whose fixes are in ${lastUpdates(left).join(" and ")}.`;
}

/** For each program the version that has every fix: `Triton 26.06`. */
function lastUpdates(open: readonly Advisory[]): string[] {
  const versions = (component: Advisory["component"]) =>
    open.filter((advisory) => advisory.component === component).map(({ fixedIn }) => fixedIn);
  return [
    ...versions("triton")
      .toSorted()
      .slice(-1)
      .map((tag) => `Triton ${tag}`),
    ...versions("tensorRtLlm")
      .toSorted(compareVersions)
      .slice(-1)
      .map((version) => `TensorRT-LLM ${version}`),
  ];
}

function oldest(suits: (release: Release) => boolean): string {
  const tag = Object.values<Release>(releases).find(suits)?.tag;
  return tag ?? "another release";
}

function newest(suits: (release: Release) => boolean): string {
  const tags = Object.values<Release>(releases).filter(suits);
  return tags.at(-1)?.tag ?? "another release";
}
