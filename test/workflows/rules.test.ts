import { describe, expect, test } from "vitest";
import { pinnedVersions, RULES, STEP_RULES } from "./rules.ts";
import { ACTIONS, parseWorkflow, WORKFLOWS } from "./workflows.ts";

const SHA = "0123456789abcdef0123456789abcdef01234567";

const CHECKOUT = `actions/checkout@${SHA}`;

/** A workflow that keeps to all rules. */
const GOOD = `name: good
on: { pull_request: { types: [labeled] } }
permissions: {}
concurrency: { group: good, cancel-in-progress: true }
jobs:
  one:
    if: >-
      github.event.pull_request.head.repo.full_name == github.repository
      && github.event.pull_request.user.type == 'User' && github.event.sender.type == 'User'
    environment: room
    timeout-minutes: 5
    permissions: { contents: read, packages: write }
    steps:
      - uses: ${CHECKOUT} # v7.0.1
        with: { persist-credentials: false }
      - run: node scripts/cli.mjs install
      - run: node scripts/cli.mjs images --stack "$STACK"
        env: { STACK: "\${{ inputs.stack }}", TOKEN: "\${{ secrets.TOKEN }}" }
`;

/** A step before the step that installs packages. */
const LOGGED_IN = `persist-credentials: false }
      - uses: docker/login-action@${SHA} # v4.1.0
`;

const UPLOADED = `persist-credentials: false }
      - uses: actions/upload-artifact@${SHA} # v7.0.0
        with: { name: a, path: b }
`;

const JOB_SECRETS = `    timeout-minutes: 5
    env: { PASSPHRASE: "\${{ secrets.PASSPHRASE }}" }
`;

/** Rules, each with a change that breaks it. */
const BAD: readonly (readonly [keyof typeof RULES, string, string])[] = [
  ["actionsArePinned", `${CHECKOUT} # v7.0.1`, "actions/checkout@v7"],
  ["actionsArePinned", `${CHECKOUT} # v7.0.1`, CHECKOUT],
  ["actionsArePinned", `${CHECKOUT} # v7.0.1`, `${CHECKOUT} # v7`],
  ["permissionsAreNamed", "permissions: {}\n", ""],
  ["permissionsAreNamed", "permissions: {}\n", "permissions: { contents: read }\n"],
  ["permissionsAreNamed", "permissions: { contents: read, packages: write }", "permissions: write-all"],
  ["jobsEnd", "    timeout-minutes: 5\n", ""],
  ["runsAreQueued", "concurrency: { group: good, cancel-in-progress: true }\n", ""],
  ["runsAreQueued", ", cancel-in-progress: true", ""],
  [
    "skippedRunsCancelNone",
    "github.event.pull_request.head.repo",
    "github.event.action == 'x' && github.event.pull_request.head.repo",
  ],
  ["credentialsAreNotKept", "persist-credentials: false", "fetch-depth: 0"],
  ["credentialsAreNotKept", "persist-credentials: false", "persist-credentials: true"],
  ["scriptsHaveNoExpressions", '"$STACK"', `\${{ github.head_ref }}`],
  ["pipesFail", '"$STACK"', '"$STACK" | tee log'],
  [
    "privilegedEventsRunOwnCode",
    "on: { pull_request: { types: [labeled] } }",
    "on: { pull_request_target: }",
  ],
  ["privilegedEventsRunOwnCode", "on: { pull_request: { types: [labeled] } }", "on: { workflow_run: }"],
  ["forksGetNoCredentials", "github.event.pull_request.head.repo.full_name == github.repository", "always()"],
  ["botsGetNoCredentials", "github.event.pull_request.user.type == 'User'", "true"],
  ["botsGetNoCredentials", "github.event.sender.type == 'User'", "github.actor != 'dependabot[bot]'"],
  ["botsGetNoCredentials", "types: [labeled]", "types: [labeled, reopened]"],
  ["botsGetNoCredentials", "pull_request: { types: [labeled] }", "pull_request: "],
  ["artifactsAreOverwritten", "persist-credentials: false }\n", UPLOADED],
  [
    "requiredChecksKeepTheirNames",
    "on: { pull_request: { types: [labeled] } }",
    "on: { pull_request: { types: [labeled] }, merge_group: }",
  ],
  ["secretsAreOfEnvironments", "    environment: room\n", ""],
  ["buildersReachNoCluster", "packages: write", "id-token: write"],
  ["buildersReachNoCluster", "secrets.TOKEN", "secrets.KUBECONFIG_TEXT"],
  ["buildersCannotWriteContents", "contents: read", "contents: write"],
  ["packagesComeBeforeCredentials", "      - run: node scripts/cli.mjs install\n", ""],
  ["packagesComeBeforeCredentials", "persist-credentials: false }\n", LOGGED_IN],
  ["packagesComeBeforeCredentials", "    timeout-minutes: 5\n", JOB_SECRETS],
  ["packagesComeBeforeCredentials", "- run: node scripts", "- run: npm ci\n      - run: node scripts"],
];

const workflow = (text: string) => parseWorkflow("good.yml", text);

describe("rules", () => {
  test("the rules accept a workflow that keeps to them", () => {
    for (const rule of Object.values(RULES)) expect(rule(workflow(GOOD))).toEqual([]);
    expect(RULES.pipesFail?.(workflow(GOOD.replace('"$STACK"', "a || b")))).toEqual([]);
  });

  test.each(BAD)("the rule %s sees %j become %j", (name, from, to) => {
    expect(GOOD).toContain(from);
    expect(RULES[name]?.(workflow(GOOD.replace(from, to)))).toHaveLength(1);
  });

  test("each rule sees at least one bad change", () => {
    expect(new Set(BAD.map(([name]) => name))).toEqual(new Set(Object.keys(RULES)));
  });

  test("workflows of privileged events may use neither a cache nor a downloaded artifact", () => {
    const own = `with: { persist-credentials: false, ref: "\${{ github.event.repository.default_branch }}" }`;
    const privileged = GOOD.replace("pull_request:", "pull_request_target:").replace(
      "with: { persist-credentials: false }",
      own,
    );
    const rule = RULES.privilegedEventsRunOwnCode;
    expect(rule?.(workflow(privileged))).toEqual([]);
    for (const step of [
      `{ uses: "actions/download-artifact@${SHA}" }`,
      `{ uses: "actions/cache@${SHA}" }`,
      `{ uses: "actions/setup-node@${SHA}", with: { cache: npm } }`,
    ])
      expect(rule?.(workflow(`${privileged}      - ${step}\n`))).toHaveLength(1);
  });
});

describe.each(WORKFLOWS.map((one) => [one.file, one] as const))("%s", (_file, one) => {
  test.each(Object.entries(RULES))("the workflow keeps to the rule %s", (_name, rule) => {
    expect(rule(one)).toEqual([]);
  });
});

test("the steps of local actions keep to the rules of steps", () => {
  expect(ACTIONS.length).toBeGreaterThan(0);
  for (const action of ACTIONS) for (const rule of STEP_RULES) expect(rule(action)).toEqual([]);
});

test("each action has one version in all workflows", () => {
  const several = [...pinnedVersions([...WORKFLOWS, ...ACTIONS])].filter(([, versions]) => versions.size > 1);
  expect(several).toEqual([]);
  expect(
    pinnedVersions([workflow(GOOD), workflow(GOOD.replace(SHA, SHA.replace("0", "f")))]).get(
      "actions/checkout",
    )?.size,
  ).toBe(2);
});
