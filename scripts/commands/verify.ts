import { execFile } from "node:child_process";
import { join, relative, resolve } from "node:path";
import { promisify } from "node:util";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { withEndpoints } from "../connect/connected-stack.ts";
import { stackContainers } from "../docker-host/containers.ts";
import { operationsOf } from "../platforms/index.ts";
import { callerDirectory, projectRoot } from "../program/stack-file.ts";
import { readPlan } from "../program/targets.ts";
import { hanging, styled } from "../terminal-text.ts";
import { type CheckResult, ENCODER_CHECKS, MODEL_CHECKS } from "../verify/check.ts";
import {
  counts,
  type ModelProof,
  mergedProof,
  PROOF_FOLDER,
  type Proof,
  proofFileName,
  proofOf,
  provesGpu,
  readProofFor,
  type Seen,
  seenGpu,
  writeProof,
} from "../verify/proof.ts";
import { type Progress, verifyStack } from "../verify/verify-stack.ts";
import { defineCommand, EXIT, printJson } from "./command.ts";

export const command = defineCommand({
  options: {
    "-o, --out <file>":
      "where the record of a GPU goes (default: proof/<gpu>-<release>.json of the project); other models of the same GPU and release that are in it stay",
    "--json":
      "print JSON: {results, passed, failed, skipped, record}; a result has subject, check, outcome, milliseconds, text; record is the file that was written, or null",
  },
  notes: [
    "Golden questions go to each model's Triton in its own request shape, and to the gateway. Parity: streamed answers equal whole answers, concurrent requests equal requests in sequence, encoders equal the published values and each other. Times of builds and starts are read from the containers, and compared with the plan's estimates.",
    "A stack on a CPU shows requests, gateway and encoders, and nothing of a GPU: no record is written.",
    "The key of a gateway that asks for one is read from ENGINE_ROOM_API_KEY.",
    "Exit code 1 when a check failed; what can't be checked is skipped with the reason, and counted.",
  ],
  asksCluster: true,
  async run({ stack, values }) {
    const plan = readPlan(stack);
    return withEndpoints(stack, ["triton"], async ({ endpoints }) => {
      const probe = (await operationsOf(stack)).hostProbe();
      const seen = await seenGpu(plan, probe);
      const recording = seen.kind === "gpu" ? openRecording(seen, values.out) : null;
      const out = values.json === true ? process.stderr : process.stdout;
      const print = (line: string) => out.write(`${line}\n`);
      const results: object[] = [];
      const printProgress = progressPrinter(plan, out);
      print(whatItShows(stack.name, plan, seen));
      const verified = await verifyStack(
        {
          name: stack.name,
          plan,
          endpoints,
          apiKey: process.env.ENGINE_ROOM_API_KEY,
          host: probe === null ? null : { probe, containers: await stackContainers(stack.name, probe) },
        },
        (progress) => {
          const { subject, title: check, milliseconds, result } = progress;
          const { text, record } = result;
          results.push({
            subject,
            check,
            outcome: record.outcome,
            milliseconds: Math.round(milliseconds),
            text,
          });
          printProgress(progress);
        },
      );
      const { passed, failed, skipped } = counts(verified);
      print(
        `${failed === 0 ? "Verified" : "NOT verified"}: ${passed} passed, ${failed} failed, ${skipped} skipped.`,
      );
      if (seen.kind === "none") print(`No proof file was written: ${seen.reason}.`);
      if (seen.kind === "gpu" && recording !== null) {
        print(keep(recording, proofOf(seen, verified, await thisRun(seen.driver))));
      }
      if (values.json === true)
        printJson({ results, passed, failed, skipped, record: recording?.path ?? null });
      return failed === 0 ? EXIT.ok : EXIT.failed;
    });
  },
});

/** The file that a run is added to, and what was in it. */
interface Recording {
  readonly path: string;
  readonly before: Proof | undefined;
}

/** Before anything is asked, so that a file which can't take the record costs nothing. */
function openRecording({ gpu, release }: Extract<Seen, { kind: "gpu" }>, out: string | undefined): Recording {
  const path =
    out !== undefined
      ? resolve(callerDirectory(), out)
      : join(projectRoot, PROOF_FOLDER, proofFileName(gpu, release));
  return { path, before: readProofFor(path, gpu, release) };
}

/** @returns What was written, as a line. */
function keep({ path, before }: Recording, run: Proof): string {
  writeProof(path, mergedProof(before, run));
  const records = [...run.models, ...run.encoders];
  const proving = records.filter(provesGpu).length;
  return `${relative(callerDirectory(), path)}: ${records.length} recorded, of which ${proving} raise docs/support-matrix.md; proof/README.md says how to contribute it.`;
}

function whatItShows(stack: string, plan: StackPlan, seen: Seen): string {
  const where = `${stack}, ${plan.platform}, tier ${plan.tier}`;
  if (seen.kind === "gpu") return `${where}: ${seen.gpu}, driver ${seen.driver}, release ${seen.release}.`;
  return `${where}: requests, gateway and servers are checked; nothing is shown of a GPU.`;
}

/** A line for each check, as soon as it is known. */
function progressPrinter({ models }: StackPlan, out: NodeJS.WriteStream): (progress: Progress) => void {
  const subjectWidth = widest(["encoders", ...models.map(({ name }) => name)]);
  const titleWidth = widest([...Object.values(MODEL_CHECKS), ...Object.values(ENCODER_CHECKS)]);
  return ({ subject, title, result: { record, text }, milliseconds }) => {
    const [meaning, sign] = SIGNS[record.outcome];
    const columns = [
      styled(meaning, sign, out),
      subject.padEnd(subjectWidth),
      title.padEnd(titleWidth),
      `${milliseconds.toFixed(0).padStart(6)} ms  `,
    ];
    out.write(`${hanging(columns.join("  "), text, out).trimEnd()}\n`);
  };
}

/** Of one width. */
const SIGNS = {
  passed: ["ok", "ok     "],
  failed: ["failed", "FAILED "],
  skipped: ["skipped", "skipped"],
} as const satisfies Record<CheckResult["record"]["outcome"], unknown>;

function widest(texts: readonly string[]): number {
  return Math.max(...texts.map(({ length }) => length));
}

const execute = promisify(execFile);

/** Date, driver, and the project's own state. */
async function thisRun(driver: string): Promise<ModelProof["run"]> {
  const date = new Date().toISOString().slice(0, 10);
  try {
    const git = (...words: string[]) => execute("git", words, { cwd: projectRoot });
    const head = await git("rev-parse", "HEAD");
    // Records are no part of what was run.
    const changes = await git("status", "--porcelain", "--", ".", `:(exclude)${PROOF_FOLDER}`);
    return { date, driver, commit: head.stdout.trim(), isModified: changes.stdout.trim() !== "" };
  } catch {
    // No git here, or no clone: an archive says nothing of its commit.
    return { date, driver, commit: null, isModified: true };
  }
}
