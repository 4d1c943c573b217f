import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import type { PolicyName } from "../../infra/plan/catalogue/policies.ts";
import { stackPolicy } from "../../policy/stack-policy.ts";
import { violations } from "../../policy/violations.ts";
import { projectName, projectRoot, readStackFile, stackReference } from "../../scripts/program/stack-file.ts";
import type { RenderedStack } from "../../scripts/render.ts";

/** Mandatory rules that the project's own stacks break, and why. */
const NO_IMAGES_YET = "a cluster's images have digests once `npm run images -- --push` has made them";
const NOT_RETAINED = "its store goes with it, as that of every stack on AWS that `retain` does not name";
const broken: Readonly<Record<string, Partial<Record<PolicyName, string>>>> = {
  "Pulumi.dev.yaml": { "engine-store-is-protected": NOT_RETAINED, "image-has-digest": NO_IMAGES_YET },
  "examples/multimodal-guide.yaml": {
    "engine-store-is-protected": NOT_RETAINED,
    "image-has-digest": NO_IMAGES_YET,
  },
  "Pulumi.prod.yaml": { "image-has-digest": NO_IMAGES_YET },
  "examples/ec2.yaml": { "engine-store-is-protected": NOT_RETAINED },
  "Pulumi.kind.yaml": { "image-has-digest": NO_IMAGES_YET },
  "Pulumi.onprem.yaml": { "image-has-digest": NO_IMAGES_YET },
  "examples/llama-2-7b-chat-kubernetes.yaml": { "image-has-digest": NO_IMAGES_YET },
};

const files = [
  ...readdirSync(projectRoot).filter((file) => /^Pulumi\.\w+\.yaml$/.test(file)),
  ...readdirSync(join(projectRoot, "examples")).map((file) => `examples/${file}`),
];

/** A process of its own: a program is evaluated once in each. */
async function rendered(name: string, file: string): Promise<RenderedStack> {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-policy-"));
  try {
    const out = join(folder, "graph.json");
    const options = ["--stack", name, "--config-file", join(projectRoot, file), "--out", out];
    await promisify(execFile)(process.execPath, ["scripts/cli.mjs", "render", ...options], {
      cwd: projectRoot,
    });
    return JSON.parse(readFileSync(out, "utf8")) as RenderedStack;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

test.each(files)("%s breaks no mandatory rule but those with a reason", async (file) => {
  // A name of a lasting stack, where most rules are mandatory.
  const name = "prod";
  const { values } = readStackFile(stackReference(name, join(projectRoot, file)));
  const policy = stackPolicy(name, values, projectName());
  if (policy === null) throw new Error(`${file} has problems.`);
  const { resources, outputs } = await rendered(name, file);
  const found = violations({ resources, outputs }, policy);
  const mandatory = new Set(found.filter(({ level }) => level === "mandatory").map((one) => one.policy));
  expect([...mandatory]).toEqual(Object.keys(broken[file] ?? {}));
});
