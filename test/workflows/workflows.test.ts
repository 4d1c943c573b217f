import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { IMAGE_NAMES, imageSources } from "../../infra/plan/docker/images.ts";
import { MATRIX_PURPOSES, matrixStacks, PREVIEW_TEMPLATE } from "../../scripts/ci/stacks.ts";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { buildGoModules } from "../harness/kubernetes/go-build.ts";
import { findGo } from "../harness/kubernetes/go-toolchain.ts";
import { npmCommands, packageFile, parseNpmCommand } from "../harness/npm-commands.ts";
import { tell } from "../harness/progress.ts";
import { needs } from "../harness/requirements.ts";
import { ACTIONS, stepsOf, WORKFLOWS } from "./workflows.ts";

const go = await findGo();

const missing = "reason" in go ? go.reason : undefined;

const BUILD_TIMEOUT_MILLISECONDS = 30 * 60_000;

describe("actionlint", needs(missing), () => {
  let program: string;
  let folder: string;

  beforeAll(async () => {
    const built = await buildGoModules(["actionlint"], tell);
    if ("reason" in built) throw new Error(built.reason);
    program = join(built.actionlint, "actionlint");
    folder = mkdtempSync(join(tmpdir(), "engine-room-workflows-"));
  }, BUILD_TIMEOUT_MILLISECONDS);

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  function lint(cwd: string, ...files: readonly string[]) {
    const { status, stdout, stderr } = spawnSync(program, ["-no-color", "-oneline", ...files], {
      cwd,
      encoding: "utf8",
    });
    return { status, lines: `${stdout}${stderr}`.split("\n").filter((line) => line !== "") };
  }

  test("actionlint finds nothing wrong in the workflows", () => {
    expect(lint(projectRoot)).toEqual({ status: 0, lines: [] });
  });

  test("actionlint reports an undefined property", () => {
    mkdirSync(join(folder, ".github/workflows"), { recursive: true });
    const file = join(folder, ".github/workflows/wrong.yml");
    writeFileSync(
      file,
      `on: push\njobs:\n  one:\n    runs-on: ubuntu-24.04\n    steps:\n      - run: echo \${{ github.evnt.number }}\n`,
    );
    const { status, lines } = lint(folder, file);
    expect(status).toBe(1);
    expect(lines.join("\n")).toContain('property "evnt" is not defined');
  });
});

const all = [...WORKFLOWS, ...ACTIONS];

const typed = all.flatMap((workflow) =>
  stepsOf(workflow).flatMap(([, { run }]) =>
    npmCommands(run ?? "").map((command) => ({ file: workflow.file, ...command })),
  ),
);

describe("npm commands of the workflows", () => {
  test.each(typed.map((one) => [one.file, [one.script, ...one.args].join(" "), one] as const))(
    "%s runs `engine-room %s` with options that the command takes",
    async (_file, _words, command) => {
      await expect(parseNpmCommand(command)).resolves.toBeDefined();
    },
  );
});

test("the merge queue runs what a pull request's required checks run", () => {
  const required = WORKFLOWS.filter(({ jobs }) => jobs.passed !== undefined);
  expect(required.map(({ on }) => Object.keys(on).slice(0, 2))).toEqual([
    ["pull_request", "merge_group"],
    ["pull_request", "merge_group"],
  ]);
  const names = required.map(({ text }) => /name: (\w+ passed)$/m.exec(text)?.[1]);
  expect(names).toEqual(["ci passed", "preview passed"]);
  const guide = readFileSync(join(projectRoot, "docs/ci.md"), "utf8");
  for (const name of names) expect(guide).toContain(`\`${name}\``);
});

test("a job that waits for others passes only when they have passed", () => {
  const run = (file: string, env: Readonly<Record<string, string>>) => {
    const passed = WORKFLOWS.find((one) => one.file.endsWith(file))?.jobs.passed;
    const script = passed?.steps.at(-1)?.run ?? "";
    return spawnSync("bash", ["-e", "-c", script], { env: { PATH: process.env.PATH, ...env } }).status === 0;
  };
  const ci = (RESULTS: string) => run("/ci.yml", { RESULTS });
  expect(["success success", "success failure", "skipped success", "success cancelled", ""].map(ci)).toEqual([
    true,
    false,
    false,
    false,
    false,
  ]);
  const preview = (RENDERED: string, OF_STATE: string) => run("/preview.yml", { RENDERED, OF_STATE });
  expect(preview("success success success", "success")).toBe(true);
  expect(preview("success success success", "skipped")).toBe(true);
  for (const result of ["failure", "cancelled"]) {
    expect(preview("success success success", result)).toBe(false);
    expect(preview(`success success ${result}`, "skipped")).toBe(false);
    expect(preview(`success ${result} success`, "skipped")).toBe(false);
  }
  expect(preview("success success skipped", "skipped")).toBe(false);
});

test("every ignored finding of zizmor has a reason", () => {
  const ignored = [...WORKFLOWS, ...ACTIONS].flatMap(({ text }) => [
    ...text.matchAll(/zizmor: ignore\S*(.*)/g),
  ]);
  expect(ignored.length).toBeGreaterThan(0);
  for (const [, reason = ""] of ignored) expect(reason.trim().split(" ").length).toBeGreaterThan(4);
});

test("files that grant permissions have code owners", () => {
  const lines = readFileSync(join(projectRoot, ".github/CODEOWNERS"), "utf8").split("\n");
  const entries = lines
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => line.split(/ +/));
  for (const [pattern = "", owner] of entries) {
    const { stdout } = spawnSync("git", ["ls-files", "--", pattern.slice(1)], {
      cwd: projectRoot,
      encoding: "utf8",
    });
    expect([pattern, stdout]).toEqual([pattern, expect.stringMatching(/./)]);
    expect(owner).toMatch(/^@[\w-]+\/[\w-]+$/);
  }
  expect(entries.map(([pattern]) => pattern)).toEqual(
    expect.arrayContaining([
      "/.ci/",
      "/.github/",
      "/bootstrap/",
      "/infra/plan/aws/deployer.yaml",
      "/loader/",
      "/package-lock.json",
      "/policy/",
      "/scripts/ci/",
      "/scripts/cli.mjs",
      "/scripts/commands/ci.ts",
      "/scripts/diff/",
      "/scripts/stack/",
    ]),
  );
});

test("files and local actions that workflows run exist", () => {
  for (const { text } of all)
    for (const [, file = ""] of text.matchAll(/env "PATH=\$PATH" (\S+)/g))
      expect(existsSync(join(projectRoot, file))).toBe(true);
  for (const { text } of all)
    for (const [, folder = ""] of text.matchAll(/uses: \.\/(\S+)/g))
      expect(existsSync(join(projectRoot, folder, "action.yml"))).toBe(true);
});

test("workflows ask for exactly the known matrices", () => {
  const asked = typed.flatMap(({ args }) =>
    args.includes("--for") ? [args[args.indexOf("--for") + 1]] : [],
  );
  expect(new Set(asked)).toEqual(new Set(MATRIX_PURPOSES));
});

test("stacks of pull requests are created only if the repository also destroys them", () => {
  const guarded = ["preview-stack", "preview-stack-end"].map((name) => {
    const jobs = WORKFLOWS.find(({ file }) => file.endsWith(`/${name}.yml`))?.jobs ?? {};
    return Object.values(jobs)
      .filter(({ needs = [] }) => needs.length === 0)
      .map(({ if: condition = "" }) => condition.includes("vars.PREVIEW_STACKS == 'true'"));
  });
  expect(guarded).toEqual([[true], [true]]);
});

test("the workflow that destroys expired stacks needs EXPIRE_STACKS, may not write contents, and has its own queue", () => {
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

test("a stack is deployed as it was previewed before its approval, and does not wait for another stack's approval", () => {
  const { jobs, concurrency } = WORKFLOWS.find(({ file }) => file.endsWith("/deploy.yml")) ?? {};
  const { stacks, preview, previewed, up } = jobs ?? {};
  const stack = "$" + "{{ matrix.stack }}";
  expect(preview?.environment).toBe(`preview-${stack}`);
  const looks = preview?.steps.map(({ run = "" }) => run) ?? [];
  const place = (command: string) => looks.findIndex((run) => run.includes(command));
  expect(place("ci require-images")).toBeGreaterThan(0);
  expect(place("ci state-preview")).toBeGreaterThan(place("ci require-images"));
  expect(looks[place("ci state-preview")]).toMatch(
    /ci diff-summary [^\n]*>> "\$GITHUB_STEP_SUMMARY"\n(?:.*\n)*.*ci approved-preview /,
  );
  // Artifacts of this attempt only: a run keeps those of its earlier attempts.
  expect(stacks).toMatchObject({ outputs: { attempt: "$" + "{{ github.run_attempt }}" } });
  const ofAttempt = "approved-$" + "{{ needs.stacks.outputs.attempt }}";
  const approved = { name: `${ofAttempt}-${stack}`, path: "$" + "{{ runner.temp }}/approved" };
  expect(previewed?.steps.map(({ with: inputs }) => inputs?.pattern)).toContain(`${ofAttempt}-*`);
  expect(preview?.steps.at(-1)?.with).toMatchObject({ ...approved, "if-no-files-found": "error" });
  expect(up?.environment).toBe(`deploy-${stack}`);
  expect(up?.steps.map(({ with: inputs }) => inputs)).toContainEqual(approved);
  const changes = up?.steps.flatMap(({ run = "" }) => (/cli\.mjs up/.test(run) ? [run] : [])) ?? [];
  expect(changes).toEqual([expect.stringContaining('--approved "$RUNNER_TEMP/approved/$STACK.json"')]);
  expect(concurrency).toBeUndefined();
  expect(up?.concurrency).toEqual({ group: `deploy/up/${stack}`, "cancel-in-progress": false });
  // A failed preview of one stack does not stop the others.
  expect(up?.if).toContain("!cancelled()");
  expect(up?.strategy).toMatchObject({ "fail-fast": false });
});

test("no two jobs of stacks share a queue, with any stack names", () => {
  const { jobs } = WORKFLOWS.find(({ file }) => file.endsWith("/deploy.yml")) ?? {};
  const groups = Object.values(jobs ?? {}).flatMap(({ concurrency }) => {
    const { group } = concurrency as { readonly group: string };
    const names = ["dev", "preview-dev", "up-dev", "stacks", "previewed"];
    return group.includes("matrix.stack")
      ? names.map((name) => group.replace(/\$\{\{ matrix\.stack \}\}/, name))
      : [group];
  });
  expect(groups).toHaveLength(12);
  expect(new Set(groups).size).toBe(groups.length);
});

test("a stack is not deployed when other jobs use its environments", () => {
  const environments = WORKFLOWS.flatMap(({ jobs }) =>
    Object.values(jobs).flatMap(({ environment }) => (typeof environment === "string" ? [environment] : [])),
  );
  const taken = environments.flatMap((name) => /^(?:preview|deploy)-([\w-]+)$/.exec(name)?.[1] ?? []);
  expect(new Set(taken)).toEqual(new Set(["stack", "stack-images", "stack-end"]));
  for (const name of taken)
    expect(() => matrixStacks("deployed", name, [name])).toThrow(`The stack ${name} is not deployed`);
});

test("an unchanged stack is reported in the run's summary, and needs no approval", () => {
  const { preview } = WORKFLOWS.find(({ file }) => file.endsWith("/deploy.yml"))?.jobs ?? {};
  const script = preview?.steps.find(({ run }) => run?.includes("ci approved-preview"))?.run ?? "";
  const branch = script.indexOf("if test -s");
  expect(branch).toBeGreaterThan(script.indexOf("ci approved-preview"));
  const after = (approved: string) => {
    const folder = mkdtempSync(join(tmpdir(), "engine-room-deploy-"));
    const path = (name: string) => join(folder, name);
    const text = (name: string) => (existsSync(path(name)) ? readFileSync(path(name), "utf8") : "");
    try {
      writeFileSync(path("dev.json"), approved);
      const env = {
        PATH: process.env.PATH,
        STACK: "dev",
        approved: path("dev.json"),
        GITHUB_OUTPUT: path("output"),
        GITHUB_STEP_SUMMARY: path("summary"),
      };
      expect(spawnSync("bash", ["-e", "-c", script.slice(branch)], { env }).status).toBe(0);
      return { output: text("output"), summary: text("summary") };
    } finally {
      rmSync(folder, { recursive: true });
    }
  };
  expect(after("{}")).toEqual({ output: "changes=true\n", summary: "" });
  const { output, summary } = after("");
  expect(output).toBe("");
  expect(summary).toContain("`dev`: nothing changes, so no approval is asked for");
  expect(preview?.steps.at(-1)?.if).toBe("steps.preview.outputs.changes == 'true'");
});

test("a pull request's failed stack is reported in its comment", () => {
  const { comment } = WORKFLOWS.find(({ file }) => file.endsWith("/preview-stack.yml"))?.jobs ?? {};
  expect(comment?.if).toContain("!cancelled()");
  expect(comment?.steps.filter(({ run }) => run?.includes("--failed")).map((step) => step.if)).toEqual([
    "needs.up.result != 'success'",
  ]);
});

test("a pull request's stack runs the images that were built for it", () => {
  const { images, up } = WORKFLOWS.find(({ file }) => file.endsWith("/preview-stack.yml"))?.jobs ?? {};
  const steps = (job: typeof up) => job?.steps.map(({ uses, run }) => `${uses ?? ""} ${run ?? ""}`) ?? [];
  const lock = { name: "images-lock", path: "images.lock.json" };
  expect(steps(images).some((step) => step.includes("cli.mjs images"))).toBe(true);
  expect(images?.steps.at(-1)?.with).toMatchObject(lock);
  expect(up?.needs).toBe("images");
  const taken = up?.steps.findIndex(({ with: inputs }) => inputs?.name === lock.name) ?? -1;
  expect(taken).toBeGreaterThan(0);
  expect(steps(up).findIndex((step) => step.includes("cli.mjs up"))).toBeGreaterThan(taken);
});

test("images are built for existing stacks, pull requests' among them", () => {
  const workflow = WORKFLOWS.find(({ file }) => file.endsWith("/images.yml"));
  const [, given = ""] = /STACKS: .*'([^']+)' \}\}/.exec(workflow?.text ?? "") ?? [];
  expect(given.split(" ")).toContain(PREVIEW_TEMPLATE);
  expect(given.split(" ").filter((name) => !matrixStacks("preview", "").includes(name))).toEqual([]);
});

test("images are built when a source of an image or the choice of images changes", () => {
  const pattern = (path: string) => (statSync(join(projectRoot, path)).isDirectory() ? `${path}/**` : path);
  const sources = IMAGE_NAMES.flatMap((name) => {
    const source = imageSources[name];
    return source.kind === "built" ? [source.dockerfile, ...source.paths].map(pattern) : [];
  });
  // Releases, bases, versions of databases, and packages of folders that stack files name.
  const choices = [
    "**/requirements.txt",
    "Pulumi.*.yaml",
    "infra/plan/catalogue/releases.ts",
    "infra/plan/docker/images.ts",
    "infra/plan/docker/python-packages.ts",
  ];
  const { on } = WORKFLOWS.find(({ file }) => file.endsWith("/images.yml")) ?? {};
  expect(on?.push).toEqual({ branches: ["main"], paths: [...new Set([...choices, ...sources])].toSorted() });
});

describe("policies", () => {
  const commandsOf = (name: string) => {
    const workflow = WORKFLOWS.find(({ file }) => file.endsWith(`/${name}.yml`));
    return (workflow === undefined ? [] : stepsOf(workflow)).map(([, { run = "" }]) => run);
  };

  test("policies fail a preview after its artifact was uploaded", () => {
    const { diff, "state-diff": ofState } =
      WORKFLOWS.find(({ file }) => file.endsWith("/preview.yml"))?.jobs ?? {};
    for (const job of [diff, ofState]) {
      const steps = job?.steps ?? [];
      const uploaded = steps.findIndex(({ uses }) => uses?.startsWith("actions/upload-artifact@"));
      const judged = steps.findIndex(({ run }) => run?.includes("cli.mjs ci diff-policies"));
      expect(uploaded).toBeGreaterThan(0);
      expect(judged).toBeGreaterThan(uploaded);
    }
  });

  test("every workflow that changes a stack enforces the policies, and previews of a state check them", () => {
    for (const name of ["deploy", "preview-stack"]) {
      const ups = commandsOf(name).filter((run) => run.includes("cli.mjs up"));
      expect(ups.length).toBeGreaterThan(0);
      for (const run of ups) expect(run).toMatch(/cli\.mjs up .*--policies/);
    }
    for (const name of ["preview", "deploy", "drift"])
      expect(
        commandsOf(name).some((run) => /--policy-pack policy|cli\.mjs ci state-policies/.test(run)),
      ).toBe(true);
  });
});

test("workflows install the Pulumi CLI in the SDK's version", () => {
  const versions = ACTIONS.flatMap(({ text }) =>
    [...text.matchAll(/pulumi-version: (\S+)/g)].map(([, version]) => version),
  );
  expect(versions).toEqual([packageFile.dependencies["@pulumi/pulumi"]]);
});

test("unit tests run on the oldest and newest Node that package.json allows", () => {
  const [, oldest = "", newest = ""] = /^>=(\d+\.\d+)\.0 <(\d+)$/.exec(packageFile.engines.node) ?? [];
  const ci = WORKFLOWS.find(({ file }) => file.endsWith("/ci.yml"));
  const { matrix } = ci?.jobs.unit?.strategy ?? {};
  expect(matrix?.node).toEqual([oldest, "22", String(Number(newest) - 1)]);
});
