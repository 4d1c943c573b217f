/**
 * Known weaknesses of Triton Inference Server and TensorRT-LLM since 24.02, after NVIDIA's security bulletins.
 *
 * Left out are those of parts that no stack runs: the DALI backend and the MLflow plugin. Each row is one CVE with the
 * bulletin's own severity; the releases that have it are those before `fixedIn`, since the bulletins end every range with the
 * release before it. State of the bulletins: 2026-08-18.
 */
import type { Advisory, Release } from "./types.ts";

type Severity = Advisory["severity"];

interface Bulletin {
  /** Path in NVIDIA's repository of bulletins: year and answer id. */
  readonly path: string;
  readonly component: NonNullable<Advisory["component"]>;
  /** By the release or version that fixes them. */
  readonly fixedIn: Readonly<Record<string, readonly (readonly [id: string, Severity, summary: string])[]>>;
}

const bulletins: readonly Bulletin[] = [
  {
    path: "2024/5535",
    component: "triton",
    fixedIn: {
      "24.04": [
        ["CVE-2024-0087", "critical", "A user can log into any file, and so run code."],
        ["CVE-2024-0088", "medium", "Improper memory access through the shared-memory API."],
        ["CVE-2024-0100", "medium", "A user can corrupt system files through the tracing API."],
      ],
    },
  },
  {
    path: "2024/5546",
    component: "triton",
    fixedIn: {
      "24.05": [
        ["CVE-2024-0095", "medium", "A user can forge log entries."],
        [
          "CVE-2024-0103",
          "medium",
          "Resources initialized wrongly after a network fault disclose information.",
        ],
      ],
    },
  },
  {
    path: "2024/5565",
    component: "triton",
    fixedIn: {
      "24.09": [
        [
          "CVE-2024-0116",
          "medium",
          "Read out of bounds when a shared-memory region is released while in use.",
        ],
      ],
    },
  },
  {
    path: "2025/5612",
    component: "triton",
    fixedIn: {
      "24.12": [
        ["CVE-2024-53880", "medium", "Integer overflow in the model-loading API; denial of service."],
      ],
    },
  },
  {
    path: "2025/5648",
    component: "tensorRtLlm",
    fixedIn: {
      "0.18.2": [
        [
          "CVE-2025-23254",
          "high",
          "Unchecked deserialization between processes of the Python executor: a local user can run code.",
        ],
      ],
    },
  },
  {
    path: "2025/5687",
    component: "triton",
    fixedIn: {
      "25.05": [
        ["CVE-2025-23323", "high", "Integer overflow on an invalid request; crash."],
        ["CVE-2025-23324", "high", "Integer overflow on an invalid request; crash."],
        ["CVE-2025-23325", "high", "Uncontrolled recursion on crafted input; denial of service."],
        ["CVE-2025-23326", "high", "Integer overflow on crafted input; denial of service."],
        ["CVE-2025-23327", "high", "Integer overflow on crafted input; denial of service, data tampering."],
        [
          "CVE-2025-23335",
          "medium",
          "Underflow with certain model configurations and inputs; denial of service.",
        ],
      ],
      "25.06": [
        ["CVE-2025-23322", "high", "Double free when a stream is cancelled before it is processed; crash."],
        ["CVE-2025-23331", "high", "Excessive memory allocation on an invalid request; crash."],
      ],
      "25.07": [
        ["CVE-2025-23310", "critical", "Stack buffer overflow on crafted input: remote code execution."],
        ["CVE-2025-23311", "critical", "Stack overflow on crafted HTTP requests: remote code execution."],
        ["CVE-2025-23317", "critical", "A crafted HTTP request can start a reverse shell."],
        ["CVE-2025-23318", "high", "Write out of bounds in the Python backend: code execution."],
        [
          "CVE-2025-23319",
          "high",
          "Write out of bounds in the Python backend by a request: remote code execution.",
        ],
        ["CVE-2025-23320", "high", "A very large request to the Python backend discloses shared memory."],
        ["CVE-2025-23321", "high", "Division by zero on an invalid request; crash."],
        ["CVE-2025-23333", "medium", "Read out of bounds in the Python backend through shared memory."],
        ["CVE-2025-23334", "medium", "Read out of bounds in the Python backend by a request."],
      ],
    },
  },
  {
    path: "2025/5691",
    component: "triton",
    fixedIn: {
      "25.08": [
        [
          "CVE-2025-23316",
          "critical",
          "Remote code execution in the Python backend through the model name in the model control API.",
        ],
        ["CVE-2025-23328", "high", "Write out of bounds on crafted input; denial of service."],
        ["CVE-2025-23329", "high", "Memory corruption through the Python backend's shared memory; crash."],
        ["CVE-2025-23336", "medium", "A misconfigured model, once loaded, denies service."],
      ],
    },
  },
  {
    path: "2025/5723",
    component: "triton",
    fixedIn: { "25.09": [["CVE-2025-33202", "high", "Stack overflow on very large payloads; crash."]] },
  },
  {
    path: "2025/5734",
    component: "triton",
    fixedIn: {
      "25.10": [
        ["CVE-2025-33201", "high", "Very large payloads are not handled; denial of service."],
        ["CVE-2025-33211", "high", "A quantity in the input is not validated; denial of service."],
      ],
    },
  },
  {
    path: "2026/5790",
    component: "triton",
    fixedIn: {
      "26.01": [
        ["CVE-2025-33238", "high", "Race in the SageMaker HTTP server; denial of service."],
        ["CVE-2025-33254", "high", "Internal state can be corrupted by a race; denial of service."],
        ["CVE-2026-24158", "high", "A large compressed HTTP payload denies service."],
      ],
    },
  },
  {
    path: "2026/5805",
    component: "tensorRtLlm",
    fixedIn: {
      "1.2": [
        ["CVE-2025-33255", "high", "Unsafe deserialization in the MPI server: code execution."],
        ["CVE-2026-24142", "medium", "Unsafe deserialization of a handle: code execution."],
        ["CVE-2026-24160", "medium", "Null pointer after an unchecked return value; denial of service."],
        ["CVE-2026-24163", "high", "Unsafe deserialization in RPC testing: code execution."],
      ],
      "1.2.1": [["CVE-2026-24205", "medium", "Race between concurrent requests; data tampering."]],
    },
  },
  {
    path: "2026/5816",
    component: "triton",
    fixedIn: {
      "26.02": [
        ["CVE-2026-24146", "high", "A large number of outputs crashes the server."],
        ["CVE-2026-24147", "medium", "An uploaded model configuration discloses information."],
        ["CVE-2026-24173", "high", "A malformed request crashes the server (integer overflow)."],
        ["CVE-2026-24174", "high", "A malformed request crashes the server (numeric conversion)."],
        ["CVE-2026-24175", "high", "A malformed request header crashes the server."],
      ],
    },
  },
  {
    path: "2026/5828",
    component: "triton",
    fixedIn: {
      "26.03": [
        ["CVE-2026-24206", "high", "Authentication bypass: escalation of privileges."],
        ["CVE-2026-24207", "critical", "Authentication bypass: code execution."],
        ["CVE-2026-24208", "medium", "Path traversal; denial of service."],
        ["CVE-2026-24209", "high", "Path traversal; denial of service."],
        ["CVE-2026-24210", "high", "Integer overflow; denial of service."],
      ],
    },
  },
  {
    path: "2026/5840",
    component: "tensorRtLlm",
    fixedIn: {
      "1.3.0rc12": [["CVE-2026-24220", "medium", "Unsafe deserialization in the visual generation server."]],
      "1.3.0rc13": [
        ["CVE-2026-24226", "medium", "Improper control of generated code: code execution."],
        ["CVE-2026-24259", "medium", "No authentication for a critical function: code execution."],
      ],
      "1.3.0rc15": [
        ["CVE-2026-24233", "high", "Deserialization of untrusted weights: a local user can run code."],
        ["CVE-2026-24234", "medium", "Server-side request forgery when media of a request are fetched."],
        ["CVE-2026-24271", "medium", "GPU resources without limits in the OpenAI-compatible API."],
        ["CVE-2026-47470", "medium", "Improper input validation in the gRPC chat API; denial of service."],
      ],
      "1.3.0rc16": [
        ["CVE-2026-47475", "medium", "Reachable assertion in the OpenAI-compatible API; denial of service."],
      ],
      "1.3.0rc17": [
        ["CVE-2026-24229", "high", "The disaggregated orchestrator lets cluster state be read and written."],
        ["CVE-2026-47471", "high", "Heap overflow when tensors are deserialized."],
        ["CVE-2026-47472", "high", "Unsafe deserialization between processes of one user: code execution."],
        ["CVE-2026-47473", "high", "An attacker can write a chosen value to a chosen place."],
      ],
    },
  },
  {
    path: "2026/5848",
    component: "triton",
    fixedIn: {
      "26.04": [
        ["CVE-2026-24264", "high", "Highly compressed data deny service."],
        ["CVE-2026-24266", "medium", "Use after free; denial of service."],
      ],
    },
  },
  {
    path: "2026/5853",
    component: "triton",
    fixedIn: {
      "26.05": [
        ["CVE-2026-47476", "high", "Uncontrolled resource consumption; denial of service."],
        ["CVE-2026-47477", "high", "Stack buffer overflow; denial of service."],
        ["CVE-2026-47478", "high", "Use of an expired file descriptor; denial of service."],
        ["CVE-2026-47479", "high", "Uncontrolled resource consumption; denial of service."],
        ["CVE-2026-47480", "high", "Uncaught exception; denial of service."],
        ["CVE-2026-47481", "medium", "Authentication bypass by another path: code execution."],
        ["CVE-2026-47482", "high", "Memory is not released; denial of service."],
      ],
    },
  },
  {
    path: "2026/5865",
    component: "triton",
    fixedIn: {
      "26.06": [
        ["CVE-2026-47606", "medium", "Absolute path traversal: code execution, information disclosure."],
        ["CVE-2026-47627", "critical", "Path traversal; denial of service."],
        ["CVE-2026-47628", "high", "Resources allocated without limits; denial of service."],
        ["CVE-2026-47629", "high", "Improper input validation; denial of service."],
        ["CVE-2026-47630", "medium", "Absolute path traversal by a local user: code execution."],
      ],
    },
  },
];

/** Oldest bulletin first, then by the release that fixes them. */
export const advisories: readonly Advisory[] = bulletins.flatMap(({ path, component, fixedIn }) =>
  Object.entries(fixedIn).flatMap(([release, weaknesses]) =>
    weaknesses.map(([id, severity, summary]) => ({
      id,
      severity,
      summary,
      component,
      fixedIn: release,
      source: `https://github.com/NVIDIA/product-security/blob/main/${path}/${path.split("/")[1]}.md`,
    })),
  ),
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
