/** A realistic change to three stacks, one of which is unchanged. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { IMAGE_NAMES } from "../../../infra/plan/docker/images.ts";
import type { StackDiff } from "../../../scripts/diff/types.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { diffOfFiles } from "./fixtures.ts";

const BASE = { ref: "origin/main", commit: "3f1c0de5a4b89d7766e2f0c1b2a39485d6e7f801" };

/** Text in a stack file, and its replacements before and after the change. */
type Edit = readonly [found: string | RegExp, before: string, after: string];

interface Example {
  /** Relative to the project. */
  readonly file: string;
  readonly edits: readonly Edit[];
}

const END = /\n*$/;

const EXAMPLES: Readonly<Record<string, Example>> = {
  // A more expensive rented machine.
  chat: {
    file: "examples/llama-2-7b-chat-kubernetes.yaml",
    edits: [
      [
        /machine: \{ gpu: A10G.*\n.*\n/,
        "instanceType: g5.4xlarge\n      hourlyUsd: 1.624\n",
        "instanceType: g6e.2xlarge\n      hourlyUsd: 2.242\n",
      ],
    ],
  },
  kind: { file: "Pulumi.kind.yaml", edits: [[END, "\n", "\n# A comment.\n"]] },
  // Larger batches, a second model that sleeps until a request, and a new token for the hub.
  onprem: {
    file: "Pulumi.onprem.yaml",
    edits: [
      [
        END,
        "\n",
        `
      limits: { maxBatchSize: 16 }
    - name: chat
      model: llama-2-7b-chat
      minReplicas: 0
`,
      ],
      ["gpus: 2", "gpus: 2", "gpus: 4"],
      [END, hubToken("Zm9ybWVyIHRva2Vu"), hubToken("bmV3ZXIgdG9rZW4g")],
    ],
  },
};

/** The hub's token in the form of `pulumi config set --secret`. */
function hubToken(ciphertext: string): string {
  return `\n  engine-room:hub:\n    token: { secure: v1:bm9uY2U=:${ciphertext} }\n`;
}

/** Tags of built images, which are hashes of their contents: docs show others, so that they do not change with each source. */
const TAG = new RegExp(String.raw`(?<=/(?:${IMAGE_NAMES.join("|")}):(?:[\d.]+-)?)[0-9a-f]{12}\b`, "g");

/** Differences sorted by stack, as if compared with a commit. */
export async function exampleDiffs(): Promise<readonly StackDiff[]> {
  const diffs = Object.entries(EXAMPLES).map(async ([stack, { file, edits }]): Promise<StackDiff> => {
    const text = readFileSync(join(projectRoot, file), "utf8");
    const [before, after] = [1, 2].map((side) =>
      edits.reduce((edited, edit) => {
        if (edited.search(edit[0]) === -1) throw new Error(`${file} has nothing like ${edit[0]}.`);
        return edited.replace(edit[0], () => String(edit[side]));
      }, text),
    ) as [string, string];
    const found = JSON.stringify(await diffOfFiles(before, after));
    const diff = JSON.parse(found.replaceAll(TAG, "0123456789ab")) as StackDiff;
    return { ...diff, stack, base: { ...diff.base, ...BASE } };
  });
  return Promise.all(diffs);
}
