import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { ACCOUNT, EC2_STACK, EKS_STACK } from "../../harness/aws/stacks.ts";
import { writtenStackFile } from "../../harness/stack-files.ts";
import { runCommand } from "../plan/run-plan.ts";

const folder = mkdtempSync(join(tmpdir(), "engine-room-charts-"));
afterAll(() => rmSync(folder, { recursive: true }));

const charts = (values: Readonly<Record<string, unknown>>) => {
  const file = writtenStackFile(folder, values);
  return runCommand("images", "--stack", "dev", "--config-file", file, "--charts");
};

test("images --charts prints the commands that copy each image and chart into the mirror", async () => {
  const ecr = `${ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com`;
  const mirror = { images: `${ecr}/mirror`, charts: `${ecr}/charts` };
  const { exitCode, stdout } = await charts({ ...EKS_STACK, cluster: { mirror } });
  expect(exitCode).toBe(0);
  const lines = stdout.trimEnd().split("\n");
  expect(lines).toContain(
    `crane copy nvcr.io/nvidia/k8s-device-plugin:v0.20.0 ${ecr}/mirror/nvcr.io/nvidia/k8s-device-plugin:v0.20.0`,
  );
  expect(lines).toContain(
    `helm pull nvidia-device-plugin --repo https://nvidia.github.io/k8s-device-plugin --version 0.20.0 && helm push nvidia-device-plugin-0.20.0.tgz oci://${ecr}/charts`,
  );
  expect(lines.filter((line) => !/^(crane copy|helm pull) /.test(line))).toEqual([]);
});

test("images --charts lists images and charts if the stack file has no mirror", async () => {
  const { stdout } = await charts(EKS_STACK);
  expect(stdout).toMatch(/^nvcr\.io\/nvidia\/k8s-device-plugin:v0\.20\.0$/m);
  expect(stdout).toMatch(/^https:\/\/nvidia\.github\.io\/k8s-device-plugin nvidia-device-plugin 0\.20\.0$/m);
  // KEDA has nothing to scale, and Fluent Bit no logs to send.
  expect(stdout).not.toMatch(/keda|fluent/);
});

test("images --charts refuses a stack without charts", async () => {
  const { exitCode, stderr } = await charts(EC2_STACK);
  expect([exitCode, stderr]).toEqual([2, expect.stringContaining("--charts is for stacks on EKS")]);
});
