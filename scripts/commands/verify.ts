import { execFile } from "node:child_process";
import { join, relative, resolve } from "node:path";
import { promisify } from "node:util";
import { withEndpoints } from "../connect/connected-stack.ts";
import { stackContainers } from "../docker-host/containers.ts";
import { operationsOf } from "../platforms/index.ts";
import { callerDirectory, projectRoot } from "../program/stack-file.ts";
import { readPlan } from "../program/targets.ts";
import { resultLine } from "../terminal-text.ts";
import { ENCODER_CHECKS, MODEL_CHECKS } from "../verify/check.ts";
import {
  type ModelProof,
  mergedProof,
  PROOF_FOLDER,
  proofFileName,
  proofOf,
  provesGpu,
  readProofFor,
  type Seen,
  seenGpu,
  writeProof,
} from "../verify/proof.ts";
import { type Progress, verifyStack } from "../verify/verify-stack.ts";
import { defineCommand } from "./command.ts";

export const command = defineCommand({
  options: {
    "-o, --out <file>":
      "where the record of a GPU goes (default: proof/<gpu>-<release>.json of the project); other models of the same GPU and release that are in it stay",
    "--json":
      "print JSON: {results, passed, failed, skipped, record}; a result has subject, check, outcome, milliseconds, text; record is the file that was written, or null",
  },
  notes: [
    "Golden questions go to each model's Triton in its own request shape, and to the gateway. Parity: streamed answers equal whole answers, concurrent requests equal requests in sequence, encoders equal the published values and each other. Times of builds and starts are read from the containers, and compared with the plan's estimates.",
    "On a CPU it checks requests, gateway and encoders, and writes no record.",
    "Exit code 1 when a check failed; what can't be checked is skipped with the reason, and counted.",
  ],
  asksCluster: true,
  asksGateway: true,
  async run({ stack, values, out }) {
    const plan = readPlan(stack);
    const { name } = stack;
    return withEndpoints(stack, ["triton"], async ({ endpoints }) => {
      const probe = (await operationsOf(stack)).hostProbe();
      const seen = await seenGpu(plan, probe);
      const record = seen.kind === "none" ? null : recordOf(seen, values.out);
      const shown =
        seen.kind === "gpu"
          ? `${seen.gpu}, driver ${seen.driver}, release ${seen.release}`
          : "requests, gateway and encoders are checked, and no record of a GPU is written";
      out.write(`${name}, ${plan.platform}, tier ${plan.tier}: ${shown}.\n`);
      const subjects = widest(["encoders", ...plan.models.map((model) => model.name)]);
      const titles = widest([...Object.values(MODEL_CHECKS), ...Object.values(ENCODER_CHECKS)]);
      const results: object[] = [];
      const host = probe === null ? null : { probe, containers: await stackContainers(name, probe) };
      const apiKey = process.env.ENGINE_ROOM_API_KEY;
      const verified = await verifyStack({ name, plan, endpoints, apiKey, host }, (progress: Progress) => {
        const { subject, title: check, result } = progress;
        const { outcome } = result.record;
        const milliseconds = Math.round(progress.milliseconds);
        results.push({ subject, check, outcome, milliseconds, text: result.text });
        const columns = [subject.padEnd(subjects), check.padEnd(titles)];
        out.write(resultLine(OUTCOMES[outcome], columns, milliseconds, result.text, out));
      });
      const outcomes = verified.flatMap(({ results }) => results.map(({ record }) => record.outcome));
      const count = (outcome: string) => outcomes.filter((one) => one === outcome).length;
      const [passed, failed, skipped] = [count("passed"), count("failed"), count("skipped")];
      const verdict = failed === 0 ? "Verified" : "NOT verified";
      out.write(`${verdict}: ${passed} passed, ${failed} failed, ${skipped} skipped.\n`);
      if (seen.kind === "none") out.write(`No proof file was written: ${seen.reason}.\n`);
      else if (record !== null) {
        const run = proofOf(seen, verified, await thisRun(seen.driver));
        writeProof(record.path, mergedProof(record.before, run));
        const records = [...run.models, ...run.encoders];
        out.write(
          `${relative(callerDirectory(), record.path)}: ${records.length} recorded, of which ${records.filter(provesGpu).length} raise docs/support-matrix.md; proof/README.md says how to contribute it.\n`,
        );
      }
      return { json: { results, passed, failed, skipped, record: record?.path ?? null }, isOk: failed === 0 };
    });
  },
});

const OUTCOMES = { passed: "ok", failed: "FAILED", skipped: "skipped" } as const;

/** Read before anything is checked, so that a file which can't hold the record costs nothing. */
function recordOf({ gpu, release }: Extract<Seen, { kind: "gpu" }>, out: string | undefined) {
  const path =
    out === undefined
      ? join(projectRoot, PROOF_FOLDER, proofFileName(gpu, release))
      : resolve(callerDirectory(), out);
  return { path, before: readProofFor(path, gpu, release) };
}

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
    // Changed records do not change the commit's code.
    const changes = await git("status", "--porcelain", "--", ".", `:(exclude)${PROOF_FOLDER}`);
    return { date, driver, commit: head.stdout.trim(), isModified: changes.stdout.trim() !== "" };
  } catch {
    // Without git, or outside of a clone, the commit is unknown.
    return { date, driver, commit: null, isModified: true };
  }
}
