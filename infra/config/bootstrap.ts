/** Configuration of bootstrap/: what an account has before its first stack. */
import { z } from "zod";
import { isRegion } from "../plan/catalogue/aws.ts";
import { ConfigError, type Problem } from "../problems.ts";
import { account, arn, region } from "./aws-stacks.ts";
import { formattedText, resourceName } from "./common.ts";
import { schemaMessage, schemaProblems } from "./schema-problems.ts";

/** Its Pulumi project, which is the namespace of its keys. */
export const BOOTSTRAP_PROJECT = "engine-room-bootstrap";

const schema = z.strictObject({
  /** Account whose stacks it is for; with credentials of another one nothing is changed. */
  account,
  /** Region of the registry, the state and the stacks. */
  region,
  /** Names of the stacks that are deployed into the account: each has policies of its own. */
  stacks: z.array(resourceName("prod")).min(1).max(10),
  /** Absent: GitHub gets no roles. */
  github: z
    .strictObject({
      /**
       * Repository whose workflows take the roles, as the subject of their tokens begins: `octo-org/engine-room`, or with both ids,
       * `octo-org@123456/engine-room@456789`, if it was created or renamed since the middle of 2026.
       * https://learn.microsoft.com/entra/workload-id/workload-identities-github-immutable-subjects
       */
      repository: formattedText(
        /^[A-Za-z0-9-]+(\/[A-Za-z0-9._-]+|@\d+\/[A-Za-z0-9._-]+@\d+)$/,
        "a repository with its owner",
        "octo-org/engine-room",
      ),
      /** GitHub's OIDC provider, if the account has it already: an account takes one. Absent: it is created. */
      oidcProviderArn: arn(
        "iam",
        "oidc-provider/token\\.actions\\.githubusercontent\\.com",
        "the ARN of GitHub's OIDC provider",
        "arn:aws:iam::111122223333:oidc-provider/token.actions.githubusercontent.com",
      ).optional(),
      /** Longest session of a role, in hours: an `up` may wait two hours for an engine. */
      sessionHours: z.int().min(1).max(12).default(4),
    })
    .optional(),
  /** Route 53 zones that stacks write records into (`gateway.zoneId`). */
  zoneIds: z
    .array(formattedText(/^Z[A-Z0-9]{1,31}$/, "the id of a hosted zone", "Z0123456789ABCDEFGHIJ"))
    .max(10)
    .default([]),
  /** Existing clusters on EKS in which stacks run (`cluster.existing`). */
  clusterNames: z
    .array(formattedText(/^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$/, "the name of a cluster on EKS", "platform"))
    .max(5)
    .default([]),
  /** Policy that each role of a stack must have as its permissions boundary; absent: none is asked for. */
  permissionsBoundaryArn: arn(
    "iam",
    "policy/\\S+",
    "the ARN of a policy",
    "arn:aws:iam::111122223333:policy/boundary",
  ).optional(),
});

export type BootstrapConfig = Readonly<z.infer<typeof schema>>;

/**
 * @param all - Configuration of the Pulumi runtime, which has lists and mappings as JSON.
 * @throws ConfigError with every problem at once.
 */
export function parseBootstrap(all: Readonly<Record<string, string>>): BootstrapConfig {
  const prefix = `${BOOTSTRAP_PROJECT}:`;
  const values = Object.fromEntries(
    Object.entries(all)
      .filter(([key]) => key.startsWith(prefix))
      .map(([key, text]) => [key.slice(prefix.length), /^\s*[[{]/.test(text) ? JSON.parse(text) : text]),
  );
  const parsed = schema.safeParse(values, { error: schemaMessage });
  const problems = parsed.success
    ? [...regionProblems(parsed.data), ...stackProblems(parsed.data)]
    : schemaProblems(parsed.error.issues, values, () => undefined);
  if (!parsed.success || problems.length > 0) throw new ConfigError(problems);
  return parsed.data;
}

function regionProblems(config: BootstrapConfig): readonly Problem[] {
  if (isRegion(config.region)) return [];
  return [
    {
      path: "region",
      value: config.region,
      reason: "It is not a region of the commercial cloud or of GovCloud.",
      fix: "Write a region such as us-east-1.",
    },
  ];
}

/** Rights end with the first part of names: those of `dev` would be rights over `dev-2`. */
function stackProblems({ stacks }: BootstrapConfig): readonly Problem[] {
  return stacks.flatMap((stack, index) => {
    const other = stacks.find((one, position) =>
      one === stack ? position < index : stack.startsWith(`${one}-`),
    );
    if (other === undefined) return [];
    return [
      {
        path: `stacks[${index}]`,
        value: stack,
        reason:
          other === stack
            ? "The list has it twice."
            : `The deployer of ${other} could change ${stack}: rights over a stack go by the first part of its resources' names.`,
        fix:
          other === stack
            ? "Remove one of them."
            : `Give the stack a name that does not begin with ${other}-.`,
      },
    ];
  });
}
