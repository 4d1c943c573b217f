/** Rules for every workflow: functions that return a workflow's violations. */
import { type Job, stepsOf, type Workflow } from "./workflows.ts";

type Rule = (workflow: Workflow) => string[];

/** `actions/checkout@<40 digits> # v7.0.1`, or an action of this repository. */
const PINNED = /^\s*(?:- )?uses: (?:\.\/\S+|[\w.-]+\/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)$/;

/** A tag can be moved to other code; the comment shows it to readers. */
const actionsArePinned: Rule = ({ text }) =>
  text.split("\n").filter((line) => /^\s*(?:- )?uses:/.test(line) && !PINNED.test(line));

/** Every `uses:` of the repository with its version, by action. */
export function pinnedVersions(workflows: readonly Workflow[]): ReadonlyMap<string, ReadonlySet<string>> {
  const versions = new Map<string, Set<string>>();
  for (const { text } of workflows)
    for (const [, action = "", version = ""] of text.matchAll(/uses: ([\w.-]+\/[\w./-]+)@(.+)$/gm))
      versions.set(action, (versions.get(action) ?? new Set()).add(version));
  return versions;
}

/** No job has default permissions: the workflow's are empty, and each job lists its own. */
const permissionsAreNamed: Rule = ({ permissions, jobs }) => [
  ...(JSON.stringify(permissions) === "{}" ? [] : ["permissions: {} is missing at the top"]),
  ...Object.entries(jobs).flatMap(([name, job]) =>
    typeof job.permissions === "object" && job.permissions !== null
      ? []
      : [`${name} does not list its permissions`],
  ),
];

const jobsEnd: Rule = ({ jobs }) =>
  Object.entries(jobs).flatMap(([name, job]) =>
    typeof job["timeout-minutes"] === "number" ? [] : [`${name} has no timeout-minutes`],
  );

/** At the top, or job by job. */
const runsAreQueued: Rule = ({ concurrency, jobs }) => {
  if (isQueue(concurrency)) return [];
  const missing = "concurrency has no group, or does not say whether a run is cancelled";
  if (concurrency !== undefined) return [missing];
  return Object.entries(jobs).flatMap(([name, job]) =>
    isQueue(job.concurrency) ? [] : [`${name}: ${missing}`],
  );
};

function isQueue(concurrency: unknown): boolean {
  return (
    typeof concurrency === "object" &&
    concurrency !== null &&
    "group" in concurrency &&
    "cancel-in-progress" in concurrency
  );
}

/** Values that differ between runs of the same pull request or branch. */
const OF_THE_RUN =
  /github\.(?:ref|event\.(?:action|label\.name|pull_request\.labels|workflow_run\.(?:event|conclusion)))\b/g;

/**
 * A run enters its workflow's group before the conditions of its jobs are evaluated, and cancels the run that waited there
 * even when all its jobs are skipped. Only a job that runs enters the group of a job.
 */
const skippedRunsCancelNone: Rule = ({ concurrency, jobs }) => {
  if (!isQueue(concurrency)) return [];
  const { group } = concurrency as { readonly group: string };
  const canBeSkipped = Object.values(jobs)
    .filter(({ needs = [] }) => needs.length === 0)
    .every(({ if: condition = "" }) =>
      (condition.match(OF_THE_RUN) ?? []).some((value) => !group.includes(value)),
    );
  return canBeSkipped ? ["concurrency is the workflow's, and runs of it may do nothing"] : [];
};

const credentialsAreNotKept: Rule = (workflow) =>
  stepsOf(workflow).flatMap(([, { uses, with: inputs }]) =>
    uses?.startsWith("actions/checkout@") === true && inputs?.["persist-credentials"] !== false
      ? ["a checkout keeps its credentials"]
      : [],
  );

/** The shell would run code from a pull request's title or branch name; a variable is never run. */
const scriptsHaveNoExpressions: Rule = (workflow) =>
  stepsOf(workflow).flatMap(([, { run }]) =>
    run?.includes("${{") === true ? [`expression in: ${run}`] : [],
  );

/** Without a `shell:` a failure before the last command of a pipe is lost. */
const pipesFail: Rule = (workflow) =>
  stepsOf(workflow).flatMap(([, { run, shell }]) =>
    /[^|]\|(?!\|)/.test(run ?? "") && shell !== "bash" ? [`pipe without shell: bash in: ${run}`] : [],
  );

/** Events with the repository's permissions may run only code of its default branch. */
const privilegedEventsRunOwnCode: Rule = (workflow) => {
  const isPrivileged = "pull_request_target" in workflow.on || "workflow_run" in workflow.on;
  if (!isPrivileged) return [];
  return stepsOf(workflow).flatMap(([, { uses, with: inputs }]) => {
    if (uses?.startsWith("actions/download-artifact@") === true)
      return ["unpacks what others made onto the disk"];
    if (uses?.startsWith("actions/cache") === true) return ["uses what others may have cached"];
    if (inputs?.cache !== undefined) return ["uses what others may have cached"];
    if (uses?.startsWith("actions/checkout@") !== true) return [];
    const isOwn =
      inputs?.ref === `\${{ github.event.repository.default_branch }}` && inputs.repository === undefined;
    return isOwn ? [] : [`checks out ${String(inputs?.ref)}`];
  });
};

/**
 * A job of a pull request that has secrets, an OIDC token or permission to write has a condition that refuses others. GitHub
 * does not give secrets to a fork by itself either; the condition shows it in the workflow.
 */
function guarded(what: string, ...guards: readonly string[]): Rule {
  return (workflow) => {
    if (!("pull_request" in workflow.on)) return [];
    return Object.entries(workflow.jobs).flatMap(([name, job]) => {
      const hasCredentials =
        JSON.stringify(job).includes("secrets.") ||
        Object.values(job.permissions as Readonly<Record<string, string>>).includes("write");
      if (!hasCredentials) return [];
      const conditions = [job.if, ...neededConditions(workflow, job)].join(" ");
      return guards.every((guard) => conditions.includes(guard))
        ? []
        : [`${name} has credentials, and does not refuse ${what}`];
    });
  };
}

const forksGetNoCredentials = guarded(
  "forks",
  "github.event.pull_request.head.repo.full_name == github.repository",
);

/**
 * Checks the pull request's author and the sender, who pushed to it or set its label: a bot's branch is in this repository,
 * too. A sender who reopens it may not have pushed to it.
 */
const botsGetNoCredentials: Rule = (workflow) => {
  const { types = ["reopened"] } = (workflow.on.pull_request ?? {}) as { readonly types?: readonly string[] };
  return guarded(
    "bots",
    "github.event.pull_request.user.type == 'User'",
    "github.event.sender.type == 'User'",
    ...(types.includes("reopened") ? ["github.event.action != 'reopened'"] : []),
  )(workflow);
};

/** A repeated job would fail at the artifact of its first run. */
const artifactsAreOverwritten: Rule = (workflow) =>
  stepsOf(workflow).flatMap(([, { uses, with: inputs }]) =>
    uses?.startsWith("actions/upload-artifact@") === true && inputs?.overwrite !== true
      ? [`the artifact ${String(inputs?.name)} is not overwritten`]
      : [],
  );

/**
 * A branch's required checks are names of jobs: one job with a fixed name waits for all others, so that a matrix may change.
 * It must never be skipped, which would count as passed.
 */
const requiredChecksKeepTheirNames: Rule = ({ on, jobs }) => {
  if (!("merge_group" in on)) return [];
  const names = Object.keys(jobs).filter((name) => name !== "passed");
  const { passed } = jobs;
  const isWhole =
    passed?.if === "always()" &&
    passed.strategy === undefined &&
    JSON.stringify([passed.needs ?? []].flat().toSorted()) === JSON.stringify(names.toSorted());
  return isWhole ? [] : ["no job `passed` waits for all others, whatever they end with"];
};

function neededConditions(workflow: Workflow, { needs = [] }: Job): (string | undefined)[] {
  return [needs].flat().map((name) => workflow.jobs[name]?.if);
}

/**
 * A job that builds images runs code of Dockerfiles and packages, so it must not reach a cluster. A token of GitHub takes
 * only the roles of the job's environment (test/infra/bootstrap), so a job with a token names its environment.
 */
const buildersReachNoCluster: Rule = ({ jobs }) =>
  Object.entries(jobs).flatMap(([name, job]) => {
    const builds = job.steps.some(({ run }) => /cli\.mjs images/.test(run ?? ""));
    const { "id-token": token } = job.permissions as { readonly "id-token"?: string };
    const hasOthersToken = token === "write" && !String(job.environment).endsWith("images");
    return builds && (hasOthersToken || /KUBECONFIG|PULUMI_CONFIG_PASSPHRASE/.test(JSON.stringify(job)))
      ? [`${name} builds images, and has credentials of a stack`]
      : [];
  });

/** Credentials of a stack are in environments, which have required reviewers and allowed branches. */
const secretsAreOfEnvironments: Rule = ({ jobs }) =>
  Object.entries(jobs).flatMap(([name, job]) =>
    JSON.stringify(job).includes("secrets.") && job.environment === undefined
      ? [`${name} reads secrets without an environment`]
      : [],
  );

const INSTALL = "node scripts/cli.mjs install";

/** An action of this repository that installs packages, and then gets credentials. */
const OWN_TOOLS = "./.github/actions/stack-tools";

/** Actions that give credentials to later steps: as files, as variables of the job, or as an OIDC session. */
const TAKES_CREDENTIALS =
  /^(?:aws-actions\/configure-aws-credentials|docker\/login-action)@|^\.\/\.github\/actions\/(?:registry-login|stack-tools)$/;

/**
 * Packages run their own scripts with all credentials of a step, so they are installed before. One command installs them
 * everywhere, which needs only Node.
 */
const packagesComeBeforeCredentials: Rule = ({ jobs }) =>
  Object.entries(jobs).flatMap(([name, { env, steps }]) => {
    const hasCredentials = steps.map(
      (step) =>
        TAKES_CREDENTIALS.test(step.uses ?? "") || /secrets\.|github\.token/.test(JSON.stringify(step)),
    );
    const first = hasCredentials.indexOf(true);
    const installed = steps.findIndex(({ run, uses }) => run === INSTALL || uses === OWN_TOOLS);
    const needsPackages = steps
      .slice(Math.max(first, 0))
      .some(({ run }) => /\bcli\.mjs (?!install)|pulumi /.test(run ?? ""));
    return [
      ...(JSON.stringify(env ?? {}).includes("secrets.") ? [`${name} has secrets in all of its steps`] : []),
      ...(steps.some(({ run }) => /\bnpm (?:ci|i|install)\b/.test(run ?? ""))
        ? [`${name} installs by npm`]
        : []),
      ...(first >= 0 && needsPackages && (installed < 0 || installed > first)
        ? [`${name} has credentials before it has packages`]
        : []),
    ];
  });

/** A job that installs packages or builds images runs code of others, so it must not have permission to write contents. */
const buildersCannotWriteContents: Rule = ({ jobs }) =>
  Object.entries(jobs).flatMap(([name, job]) => {
    const { contents } = job.permissions as { readonly contents?: string };
    const builds = job.steps.some(({ run }) =>
      /cli\.mjs (images|up|smoke|diff|test)|\.ci\/run/.test(run ?? ""),
    );
    return builds && contents === "write" ? [`${name} builds, and may write contents`] : [];
  });

export const RULES: Readonly<Record<string, Rule>> = {
  actionsArePinned,
  permissionsAreNamed,
  jobsEnd,
  runsAreQueued,
  skippedRunsCancelNone,
  credentialsAreNotKept,
  scriptsHaveNoExpressions,
  pipesFail,
  privilegedEventsRunOwnCode,
  forksGetNoCredentials,
  botsGetNoCredentials,
  artifactsAreOverwritten,
  requiredChecksKeepTheirNames,
  secretsAreOfEnvironments,
  buildersCannotWriteContents,
  buildersReachNoCluster,
  packagesComeBeforeCredentials,
};

/** Rules for the steps of a local action, too. */
export const STEP_RULES: readonly Rule[] = [
  actionsArePinned,
  credentialsAreNotKept,
  scriptsHaveNoExpressions,
  packagesComeBeforeCredentials,
];
