/** The stacks on AWS by the Pulumi CLI and AWS's own provider, which checks every argument, with a stand-in for AWS. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { type AwsStandIn, MOTO_ACCOUNT, startMoto } from "../harness/aws/moto.ts";
import { missingPulumiPrograms } from "../harness/pulumi-programs.ts";
import { TestStack } from "../harness/stack.ts";
import { projectStackValues } from "../harness/stack-files.ts";

const missing = missingPulumiPrograms("aws") ?? missingPulumiPrograms("kubernetes");

/** Resources of docs/aws.md, which another test holds to the graphs. */
function countOf(stack: "dev" | "prod"): number {
  const [, dev, prod] = /^\| all \| (\d+) \| (\d+) \|/m.exec(
    readFileSync(join(projectRoot, "docs/aws.md"), "utf8"),
  ) as RegExpExecArray;
  return Number(stack === "dev" ? dev : prod);
}

describe.skipIf(missing !== undefined)(`a true preview (${missing ?? "by the Pulumi CLI"})`, () => {
  let aws: AwsStandIn;
  beforeAll(async () => {
    aws = await startMoto({ region: "us-east-1" });
  });
  afterAll(() => aws?.stop());

  test.each(["dev", "prod"] as const)("of %s makes the whole graph", async (name) => {
    const stack = new TestStack(name, {
      ...projectStackValues(`Pulumi.${name}.yaml`),
      account: MOTO_ACCOUNT,
    });
    const environment = { ...aws.environment, ENGINE_ROOM_RUNNER: "" };
    try {
      const { stdout } = await stack.succeedWith(environment, "preview");
      expect(stdout).toMatch(new RegExp(`\\+ ${countOf(name)} to create`));
    } finally {
      await stack.dispose(environment);
    }
  });
});
