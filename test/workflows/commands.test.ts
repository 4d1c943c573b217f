/** What the workflows type: there are such commands, and they take such options. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { PREVIEW_TEMPLATE } from "../../scripts/ci/preview-stack.ts";
import { MATRIX_PURPOSES, STACK_PIPELINES } from "../../scripts/ci/stacks.ts";
import { projectRoot, stackNames } from "../../scripts/program/stack-file.ts";
import { npmCommands, packageFile, parseNpmCommand } from "../harness/npm-commands.ts";
import { ACTIONS, stepsOf, WORKFLOWS } from "./workflows.ts";

const all = [...WORKFLOWS, ...ACTIONS];
const typed = all.flatMap((workflow) =>
  stepsOf(workflow).flatMap(([, { run }]) =>
    npmCommands(run ?? "").map((command) => ({ file: workflow.file, ...command })),
  ),
);

describe("npm commands of the workflows", () => {
  test.each(typed.map((one) => [one.file, [one.script, ...one.args].join(" "), one] as const))(
    "%s: %s",
    async (_file, _words, command) => {
      await expect(parseNpmCommand(command)).resolves.toBeUndefined();
    },
  );
});

test("files that the workflows run are there", () => {
  for (const { text } of all)
    for (const [, file = ""] of text.matchAll(/env "PATH=\$PATH" (\S+)/g))
      expect(existsSync(join(projectRoot, file))).toBe(true);
  for (const { text } of all)
    for (const [, folder = ""] of text.matchAll(/uses: \.\/(\S+)/g))
      expect(existsSync(join(projectRoot, folder, "action.yml"))).toBe(true);
});

test("every stack file has its row, and every row its stack file", () => {
  const own = stackNames().filter((name) => !/^pr-\d+$/.test(name));
  expect(Object.keys(STACK_PIPELINES).toSorted()).toEqual(own);
});

test("matrices are asked for by names that there are", () => {
  const asked = typed.flatMap(({ args }) =>
    args.includes("--for") ? [args[args.indexOf("--for") + 1]] : [],
  );
  expect(new Set(asked)).toEqual(new Set(MATRIX_PURPOSES));
});

test("stacks of pull requests come up only where something ends them", () => {
  const guarded = ["preview-stack", "preview-stack-end"].map((name) => {
    const jobs = WORKFLOWS.find(({ file }) => file.endsWith(`/${name}.yml`))?.jobs ?? {};
    return Object.values(jobs)
      .filter(({ needs = [] }) => needs.length === 0)
      .map(({ if: condition = "" }) => condition.includes("vars.PREVIEW_STACKS == 'true'"));
  });
  expect(guarded).toEqual([[true], [true]]);
});

test("stacks are ended only where the repository says so, without a right to write and in nobody else's queue", () => {
  const { jobs, concurrency } = WORKFLOWS.find(({ file }) => file.endsWith("/expire.yml")) ?? {};
  const { expire, issue } = jobs ?? {};
  expect(expire?.if).toContain("vars.EXPIRE_STACKS == 'true'");
  expect(expire?.permissions).toEqual({ contents: "read", "id-token": "write" });
  expect(issue?.permissions).toEqual({ contents: "read", issues: "write" });
  expect(issue?.needs).toBe("expire");
  expect(issue?.if).toContain("!cancelled()");
  const group = (of: unknown) => (of as { readonly group?: string } | undefined)?.group;
  const all = WORKFLOWS.flatMap(({ concurrency: own, jobs: others }) =>
    [own, ...Object.values(others).map((job) => job.concurrency)].map(group),
  );
  expect(all.filter((one) => one === group(concurrency))).toHaveLength(1);
});

test("a stack of a pull request that does not come up is said to have failed", () => {
  const { comment } = WORKFLOWS.find(({ file }) => file.endsWith("/preview-stack.yml"))?.jobs ?? {};
  expect(comment?.if).toContain("!cancelled()");
  expect(comment?.steps.filter(({ run }) => run?.includes("--failed")).map((step) => step.if)).toEqual([
    "needs.up.result != 'success'",
  ]);
});

test("a stack of a pull request comes up with the images that were built for it", () => {
  const { images, up } = WORKFLOWS.find(({ file }) => file.endsWith("/preview-stack.yml"))?.jobs ?? {};
  const steps = (job: typeof up) => job?.steps.map(({ uses, run }) => `${uses ?? ""} ${run ?? ""}`) ?? [];
  const lock = { name: "images-lock", path: "images.lock.json" };
  expect(steps(images).some((step) => step.includes("npm run images"))).toBe(true);
  expect(images?.steps.at(-1)?.with).toMatchObject(lock);
  expect(up?.needs).toBe("images");
  const taken = up?.steps.findIndex(({ with: inputs }) => inputs?.name === lock.name) ?? -1;
  expect(taken).toBeGreaterThan(0);
  expect(steps(up).findIndex((step) => step.includes("npm run up"))).toBeGreaterThan(taken);
});

test("images are built of stacks that there are, that of pull requests among them", () => {
  const workflow = WORKFLOWS.find(({ file }) => file.endsWith("/images.yml"));
  const [, given = ""] = /STACKS: .*'([^']+)' \}\}/.exec(workflow?.text ?? "") ?? [];
  expect(given.split(" ")).toContain(PREVIEW_TEMPLATE);
  expect(given.split(" ").filter((name) => STACK_PIPELINES[name] === undefined)).toEqual([]);
});

describe("policies", () => {
  const commandsOf = (name: string) => {
    const workflow = WORKFLOWS.find(({ file }) => file.endsWith(`/${name}.yml`));
    return (workflow === undefined ? [] : stepsOf(workflow)).map(([, { run = "" }]) => run);
  };

  test("fail a preview, after its artifact is there", () => {
    const { diff, "state-diff": ofState } =
      WORKFLOWS.find(({ file }) => file.endsWith("/preview.yml"))?.jobs ?? {};
    for (const job of [diff, ofState]) {
      const steps = job?.steps ?? [];
      const uploaded = steps.findIndex(({ uses }) => uses?.startsWith("actions/upload-artifact@"));
      const judged = steps.findIndex(({ run }) => run?.includes("ci -- diff-policies"));
      expect(uploaded).toBeGreaterThan(0);
      expect(judged).toBeGreaterThan(uploaded);
    }
  });

  test("end whatever would change a stack, and are asked where the state is", () => {
    for (const name of ["deploy", "preview-stack"]) {
      const ups = commandsOf(name).filter((run) => run.includes("npm run up"));
      expect(ups.length).toBeGreaterThan(0);
      for (const run of ups) expect(run).toMatch(/npm run up -- .*--policies/);
    }
    for (const name of ["preview", "drift"])
      expect(commandsOf(name).some((run) => run.includes("--policy-pack policy"))).toBe(true);
  });
});

test("the CLI that is installed is the SDK's version", () => {
  const versions = ACTIONS.flatMap(({ text }) =>
    [...text.matchAll(/pulumi-version: (\S+)/g)].map(([, version]) => version),
  );
  expect(versions).toEqual([packageFile.dependencies["@pulumi/pulumi"]]);
});

test("the unit tests run on the oldest and newest Node that package.json allows", () => {
  const [, oldest = "", newest = ""] = /^>=(\d+\.\d+)\.0 <(\d+)$/.exec(packageFile.engines.node) ?? [];
  const ci = WORKFLOWS.find(({ file }) => file.endsWith("/ci.yml"));
  const { matrix } = ci?.jobs.unit?.strategy ?? {};
  expect(matrix?.node).toEqual([oldest, "22", String(Number(newest) - 1)]);
});
