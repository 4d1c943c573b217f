/** Weights in a bucket: the commands of a build on EKS, by AWS's own CLI, against S3 as moto has it. */
import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { fetchCommands } from "../../infra/plan/engine/weights.ts";
import { useAwsCli, useMoto } from "../harness/aws/use-moto.ts";
import { plannedCluster } from "../infra/plan/aws/eks-plans.ts";

const REGION = "us-east-1";
const moto = useMoto(REGION);
beforeAll(() => useAwsCli(moto));

const aws = async (...args: readonly string[]) =>
  (await promisify(execFile)(join(moto.folder(), "aws"), args, { timeout: 120_000 })).stdout;

const FILES = {
  "config.json": "{}",
  "model.safetensors": "weights",
  "tokenizer.json": "{}",
  "pytorch_model.bin": "the same in another format",
};

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "engine-room-weights-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

test("a build fetches files that match its patterns, only from the stack file's prefix, and an existing file only once", async () => {
  await aws("s3", "mb", "s3://company-models");
  const source = join(folder, "source");
  for (const [name, text] of Object.entries(FILES)) {
    writeFileSync(source, text);
    await aws("s3", "cp", source, `s3://company-models/team/gpt2/${name}`);
  }
  // Another prefix that begins with the same words.
  await aws("s3", "cp", source, "s3://company-models/team/gpt2-xl/config.json");

  const weights = { from: "s3", uri: "s3://company-models/team/gpt2", revision: "v1" };
  const { plan } = plannedCluster({ models: [{ name: "gpt", model: "gpt2-medium", weights }] });
  const [model] = plan.spec.models;
  if (model === undefined) throw new Error("The stack has no model.");
  const [install, sync] = fetchCommands(model.engine);
  expect(install?.slice(0, 2)).toEqual(["pip", "install"]);
  const target = join(folder, "weights");
  const words = (sync ?? []).map((word) => (word === "/store/weights/gpt2-medium/s3-v1" ? target : word));
  expect(words).toContain(target);

  await aws(...words.slice(1));
  const { "pytorch_model.bin": _, ...wanted } = FILES;
  expect(readdirSync(target).toSorted()).toEqual(Object.keys(wanted).toSorted());
  for (const [name, text] of Object.entries(wanted))
    expect(readFileSync(join(target, name), "utf8")).toBe(text);

  const before = statSync(join(target, "config.json")).ino;
  rmSync(join(target, "tokenizer.json"));
  expect(await aws(...words.slice(1).filter((word) => word !== "--no-progress"))).not.toContain(
    "config.json",
  );
  expect(readdirSync(target).toSorted()).toEqual(Object.keys(wanted).toSorted());
  expect(statSync(join(target, "config.json")).ino).toBe(before);
});
