/** What stacks on AWS have in common: credentials of one account, repositories in ECR, and bills that outlive a stack. */
import type { AwsContext } from "../../infra/plan/aws/context.ts";
import type { AwsPlan } from "../../infra/plan/gpu-stack.ts";
import { leftoversReport, requireAccount, requireNoLeftovers, taggedArns } from "../aws/account.ts";
import { AwsError } from "../aws/session.ts";
import { askRegistry, dockerCredentials } from "../images/registry.ts";
import { asleepHour, NO_PRICE } from "../plan/amounts.ts";
import { awsPreflight, ownAddress } from "../preflight/aws.ts";
import { ownEngineFinding } from "../preflight/docker-reading.ts";
import { programFindings, pulumiCheck } from "../preflight/programs.ts";
import { readAwsTarget } from "../program/targets.ts";
import { noSuchStack } from "../stack/pulumi-cli.ts";
import { defaultOperations } from "./defaults.ts";
import { type Operations, OWN_ENGINE, type StackSource } from "./operations.ts";

/** The AWS provider and all that the component of the repositories has. */
const REGISTRIES = ["**pulumi:providers:aws::**", "**engine-room:aws:Registries**"] as const;

export function awsOperations(source: StackSource): Omit<Operations, "status" | "logs" | "logged"> {
  const { stack, values } = source;
  const place: Pick<AwsContext, "account" | "region"> = {
    account: String(values.account),
    region: String(values.region),
  };
  const target = () => readAwsTarget(stack);
  const defaults = defaultOperations(source);
  return {
    ...defaults,
    prepare: () => requireAccount(target().context),
    async preflight() {
      const aws = target();
      const { account, region } = aws.context;
      const checks = [
        pulumiCheck("AWS"),
        { looksAt: "programs of this machine", findings: await programFindings(aws.plan.compute) },
        ...(await awsPreflight(aws, { registry: askRegistry(dockerCredentials()), ownAddress })),
      ];
      const findings = checks.flatMap((check) => check.findings);
      return { host: `the account ${account} in ${region}`, findings, checks };
    },
    images() {
      const aws = target();
      const { needed, inputs, found, registry } = aws;
      return {
        target: { needed, options: inputs, images: found, registry, uri: OWN_ENGINE },
        engineFinding: ownEngineFinding,
        aws,
      };
    },
    upCommand: "up",
    isRented: true,
    registries: REGISTRIES,
    requireAccess: () => requireAccount(place),
    async beforeUp() {
      const { readyMachines } = await import("../aws/machine.ts");
      return readyMachines(target());
    },
    async beforeDown(record, forget) {
      const known = await record();
      if (known === "resources") return;
      // Deletes nothing but the record.
      if (known === "empty") await forget();
      await requireNoLeftovers(noSuchStack(stack.name), { region: place.region, stack: stack.name });
    },
    async afterDown(deletesData, out) {
      await defaults.afterDown(deletesData, out);
      // `retain`, claims of databases and copies outlive a stack, and cost money.
      const tagged = await taggedArns(place.region, stack.name).catch((error: unknown) => {
        if (error instanceof AwsError) return error;
        throw error;
      });
      out.write(leftoversReport({ region: place.region, stack: stack.name }, tagged));
      return !(tagged instanceof AwsError);
    },
  };
}

/** What `sleep` says last: the cost of a stack that sleeps. @param stack - Its name. */
export function asleepLine({ cost }: Pick<AwsPlan, "cost">, stack: string): string {
  const hour = asleepHour(cost);
  return hour === NO_PRICE
    ? `Asleep the stack still costs money, and nothing of it has a price: ${cost.withoutPrice.join(", ")}; \`npx engine-room down --stack ${stack}\` ends that.\n`
    : `Asleep the stack costs ${hour} an hour; \`npx engine-room down --stack ${stack}\` ends that.\n`;
}
