/** bootstrap/ by the Pulumi CLI's own commands, and a stack beside it, with a stand-in for AWS's provider. */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { refusedOf } from "../harness/aws/provider/account.ts";
import { StandInStack } from "../harness/aws/provider/stack.ts";
import { missingPulumiPrograms } from "../harness/pulumi-programs.ts";
import { needs } from "../harness/requirements.ts";
import { projectStackValues } from "../harness/stack-files.ts";

const missing = missingPulumiPrograms("kubernetes");

describe("bootstrap, and a machine on EC2 beside it", needs(missing), () => {
  const name = `test-bootstrap-${process.pid}`;
  let folder: string;
  let stack: StandInStack;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "engine-room-bootstrap-"));
    stack = new StandInStack("beside", projectStackValues("examples/ec2.yaml"));
  });
  afterAll(async () => {
    await stack?.dispose();
    rmSync(folder, { recursive: true, force: true });
    rmSync(join(projectRoot, `bootstrap/Pulumi.${name}.yaml`), { force: true });
  });

  /** Runs a command of docs/platforms/aws.md. */
  async function pulumi(backend: string, ...args: string[]): Promise<string> {
    const { stdout } = await promisify(execFile)("pulumi", ["-C", "bootstrap", ...args, "--stack", name], {
      cwd: projectRoot,
      env: {
        ...process.env,
        ...stack.account.environment,
        PULUMI_BACKEND_URL: backend,
        PULUMI_CONFIG_PASSPHRASE: "",
        PULUMI_SKIP_UPDATE_CHECK: "true",
      },
    });
    return stdout;
  }

  const first = () => `file://${folder}`;
  const types = () => stack.account.live().map(({ type }) => type);

  test("up creates the previewed resources by the documented commands, and a second up changes nothing", async () => {
    await pulumi(first(), "stack", "init");
    await pulumi(first(), "config", "set", "account", "111122223333");
    await pulumi(first(), "config", "set", "region", "us-east-1");
    await pulumi(first(), "config", "set", "--path", "stacks[0]", "dev");
    await pulumi(first(), "config", "set", "--path", "github.repository", "octo-org/rooms");
    expect(await pulumi(first(), "preview")).toMatch(/\+ \d+ to create/);
    expect(stack.account.calls()).toEqual([]);
    await pulumi(first(), "up", "--yes");
    expect(refusedOf(stack.account.calls())).toEqual([]);
    const made = stack.account.calls().length;
    expect(await pulumi(first(), "up", "--yes")).toMatch(/\d+ unchanged/);
    expect(stack.account.calls()).toHaveLength(made);
  });

  test("outputs have the values for a login, a stack and an environment of GitHub", async () => {
    const output = (key: string) => pulumi(first(), "stack", "output", key);
    expect(await output("stateUrl")).toBe("s3://engine-room-state-111122223333-us-east-1?region=us-east-1\n");
    expect(await output("secretsProvider")).toMatch(
      /^awskms:\/\/\/arn:aws:kms:us-east-1:111122223333:key\/[0-9a-f-]{36}\?region=us-east-1\n$/,
    );
    expect(JSON.parse(await output("roles"))).toEqual({
      "deploy-dev": "arn:aws:iam::111122223333:role/engine-room.deploy-dev",
      images: "arn:aws:iam::111122223333:role/engine-room.images",
      "preview-dev": "arn:aws:iam::111122223333:role/engine-room.preview-dev",
    });
    expect(Object.keys(JSON.parse(await output("policies")))).toHaveLength(10);
  });

  test("mistakes of the configuration are reported together and change nothing", async () => {
    await pulumi(first(), "config", "set", "region", "us-east-9");
    await pulumi(first(), "config", "set", "--path", "stacks[1]", "dev-2");
    const failed = await pulumi(first(), "up", "--yes").catch(
      (error: { stdout: string; stderr: string }) => error,
    );
    if (typeof failed === "string") throw new Error("It came up.");
    expect(failed.stdout + failed.stderr).toMatch(/2 problems in the stack's configuration:/);
    await pulumi(first(), "config", "set", "region", "us-east-1");
    await pulumi(first(), "config", "rm", "--path", "stacks[1]");
  });

  test("down of a stack leaves repositories, state and roles", async () => {
    const before = types().toSorted();
    await stack.brought();
    expect(types().length).toBeGreaterThan(before.length);
    await stack.succeed("down");
    expect(refusedOf(stack.account.calls())).toEqual([]);
    expect(types().toSorted()).toEqual(before);
    expect(before.filter((type) => type === "aws:ecr/repository:Repository")).toHaveLength(5);
  });

  test("its own state moves to another backend, and nothing changes", async () => {
    const elsewhere = mkdtempSync(join(tmpdir(), "engine-room-bucket-"));
    const backend = `file://${elsewhere}`;
    const file = join(folder, "bootstrap.json");
    await pulumi(first(), "stack", "export", "--file", file);
    await pulumi(backend, "stack", "init");
    await pulumi(backend, "stack", "import", "--file", file);
    expect(await pulumi(backend, "preview")).toMatch(/\d+ unchanged/);
    rmSync(elsewhere, { recursive: true });
  });

  test("destroy deletes no protected resource", async () => {
    const before = types().toSorted();
    const failed = await pulumi(first(), "destroy", "--yes").catch(
      (error: { stdout: string; stderr: string }) => error,
    );
    if (typeof failed === "string") throw new Error("It was destroyed.");
    expect(failed.stdout + failed.stderr).toContain("protected");
    expect(types().toSorted()).toEqual(before);
  });
});
