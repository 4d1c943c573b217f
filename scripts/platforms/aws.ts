/** Stacks on AWS: in their own clusters, or on one machine of EC2 each, which runs the containers of a Docker host. */
import { chartPlans } from "../../infra/plan/aws/cluster-software.ts";
import { SYSTEM_POOL } from "../../infra/plan/aws/context.ts";
import { type ChartName, installedCharts, sleepsWithoutMachines } from "../../infra/plan/catalogue/aws.ts";
import { objectName } from "../../infra/plan/docker/host-objects.ts";
import { shellLine } from "../../infra/plan/engine/shell-line.ts";
import type { AwsPlan } from "../../infra/plan/gpu-stack.ts";
import { ConfigError } from "../../infra/problems.ts";
import { leftoversReport, requireAccount, requireNoLeftovers, taggedArns } from "../aws/account.ts";
import { openApi } from "../aws/api-access.ts";
import {
  changeMachine,
  readyMachines,
  requireMachine,
  stackMachine,
  terminalSession,
} from "../aws/machine.ts";
import {
  awaitControllers,
  changePools,
  hasStackCluster,
  scaleAutoscaler,
  sleepsNow,
  useStackCluster,
  wakeBefore,
} from "../aws/pools.ts";
import { hasReleases, removePendingReleases } from "../aws/releases.ts";
import { AwsError } from "../aws/session.ts";
import { commandRun, containerRun } from "../bench/genai-perf.ts";
import { clusterProbe } from "../cluster/kubectl.ts";
import { awaitServers, changeServers, serverTable } from "../cluster/sleep.ts";
import { forwards, localEndpoints, sessionForwards, wantedEndpoints } from "../connect/forwards.ts";
import { serviceName } from "../docker-host/service-states.ts";
import { UserError } from "../errors.ts";
import { askRegistry, dockerCredentials } from "../images/registry.ts";
import { asleepHour, NO_PRICE } from "../plan/amounts.ts";
import { awsPreflight, localAddresses, ownAddress } from "../preflight/aws.ts";
import { clusterPreflight } from "../preflight/cluster.ts";
import { ownEngineFinding } from "../preflight/docker-facts.ts";
import { type CheckResult, problem } from "../preflight/finding.ts";
import { programFindings, pulumiCheck } from "../preflight/programs.ts";
import {
  type AwsTarget,
  type InstanceTarget,
  readAwsTarget,
  readClusterTarget,
  readInstanceTarget,
} from "../program/targets.ts";
import { noSuchStack } from "../stack/pulumi-cli.ts";
import { operations as kubernetesOperations } from "./kubernetes.ts";
import {
  defaultOperations,
  HERE,
  type Operations,
  OWN_ENGINE,
  SHELL,
  type StackSource,
  type StatusReport,
  statusReport,
} from "./operations.ts";

/** Operations of clusters and machines on AWS: credentials of one account, repositories in ECR, costs that outlive a stack. */
function awsOperations(
  source: StackSource,
): Omit<Operations, "status" | "logs" | "shells" | "logged" | "genaiPerf"> {
  const { stack, values } = source;
  const place = { account: String(values.account), region: String(values.region) };
  const target = () => readAwsTarget(stack);
  const defaults = defaultOperations(source);
  return {
    ...defaults,
    async preflight() {
      const aws = target();
      const { account, region } = aws.context;
      const checks = [
        pulumiCheck("AWS"),
        { looksAt: "programs of this machine", findings: await programFindings(aws.plan.compute) },
        ...(await awsPreflight(aws, {
          registry: askRegistry(dockerCredentials()),
          localAddresses,
          ownAddress,
        })),
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
    requireAccess: () => requireAccount(place),
    // Reports a problem of the stack file before AWS is asked.
    prepare: async () => requireAccount(target().context),
    beforeUp: () => readyMachines(target()),
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

/** Last line of `sleep`: the cost of a stack that sleeps. @param stack - Its name. */
export function asleepLine({ cost }: Pick<AwsPlan, "cost">, stack: string): string {
  const hour = asleepHour(cost);
  return hour === NO_PRICE
    ? `Asleep the stack still costs money, and nothing of it has a price: ${cost.withoutPrice.join(", ")}; \`npx engine-room down --stack ${stack}\` ends that.\n`
    : `Asleep the stack costs ${hour} an hour; \`npx engine-room down --stack ${stack}\` ends that.\n`;
}

/** Kinds and metrics by their chart. */
const KINDS: Readonly<Partial<Record<ChartName, RegExp>>> = {
  keda: /keda\.sh|external\.metrics/,
  "kube-prometheus-stack": /monitoring\.coreos\.com/,
};

function withoutOwnKinds(
  checks: readonly CheckResult[],
  charts: readonly ChartName[],
): readonly CheckResult[] {
  return checks.map(({ findings, ...check }) => ({
    ...check,
    findings: findings.filter(
      (finding) => finding.check !== "kinds" || !charts.some((chart) => KINDS[chart]?.test(finding.what)),
    ),
  }));
}

function unreached(error: unknown): CheckResult {
  if (!(error instanceof UserError)) throw error;
  const { message } = error;
  const fix = "Run this where the cluster's API answers, with a principal that has an access entry.";
  const finding = problem(
    "access",
    "The API of the existing cluster is not reached from here.",
    message,
    fix,
  );
  return { looksAt: "API server", findings: [finding] };
}

export function eksOperations(source: StackSource): Operations {
  const cluster = kubernetesOperations(source);
  const aws = awsOperations(source);
  const target = () => {
    const { plan, context } = readAwsTarget(source.stack);
    if (!("cluster" in plan)) throw new Error(`The stack ${context.stack} has no cluster.`);
    return { plan, context };
  };
  /** An existing cluster's owner decides on access to its API. */
  const openOwnApi = async (
    { plan, context }: Pick<AwsTarget, "plan" | "context">,
    print: (line: string) => void,
  ) => {
    if (plan.compute === "eks" && plan.config.cluster.existing !== undefined) return;
    await openApi({ region: context.region, name: context.cluster }, plan.config.access, print);
  };
  /** Starts machines of a cluster that sleeps. */
  const wakeMachines = (only?: readonly string[]) => {
    const { plan, context } = target();
    const probe = async () => {
      await openOwnApi({ plan, context }, (line) => void process.stderr.write(`${line}\n`));
      await useStackCluster(context);
      return clusterProbe(null);
    };
    return wakeBefore(plan, context, probe, only);
  };
  return {
    ...cluster,
    ...aws,
    async preflight() {
      const report = await aws.preflight();
      const { plan, context } = readAwsTarget(source.stack);
      const isFound = report.findings.every(({ check }) => check !== "credentials" && check !== "cluster");
      if (plan.compute !== "eks" || plan.config.cluster.existing === undefined || !isFound) return report;
      const inside = await useStackCluster(context).then(
        () => clusterPreflight(readClusterTarget(source.stack), clusterProbe(null), null),
        (error: unknown) => [unreached(error)],
      );
      // The stack's own charts bring their kinds, which are still missing.
      const checks = [
        ...(report.checks ?? []),
        ...withoutOwnKinds(inside, installedCharts(plan.config.cluster)),
      ];
      return { ...report, checks, findings: checks.flatMap(({ findings }) => findings) };
    },
    // The user's kubeconfig may lack the cluster.
    async prepare() {
      await aws.prepare();
      await useStackCluster(readAwsTarget(source.stack).context);
    },
    async openApi(print) {
      const target = knownTarget(source);
      if (target !== undefined) await openOwnApi(target, print);
    },
    async removeLeftovers(state) {
      const target = knownTarget(source);
      if (target === undefined || !hasReleases(await state())) return [];
      const { plan, context } = target;
      if (plan.compute !== "eks" || !(await hasStackCluster(context))) return [];
      await useStackCluster(context);
      const charts = chartPlans(plan, context);
      const { removed, running } = await removePendingReleases(clusterProbe(null), charts, Date.now());
      for (const sentence of running) process.stderr.write(`${sentence}\n`);
      return removed;
    },
    forwarding: cluster.forwarding,
    async status() {
      const report = await cluster.status();
      const { plan, context } = target();
      if (!(await sleepsNow(plan, context))) return report;
      const asleep = `The stack sleeps, and its cluster has no machine; \`npx engine-room wake --stack ${context.stack}\` brings it back.\n`;
      return { ...report, isHealthy: false, text: `${report.text}${asleep}` };
    },
    async beforeUp() {
      return [...(await aws.beforeUp()), ...(await wakeMachines())];
    },
    async beforeDown(record, forget) {
      await aws.beforeDown(record, forget);
      // A stack is deleted by its state, even with an invalid file.
      if ((await record()) !== "resources" || knownTarget(source) === undefined) return;
      // Disks of claims and the load balancer's targets are deleted by controllers.
      for (const line of await wakeMachines([SYSTEM_POOL])) process.stderr.write(`${line}.\n`);
    },
    async sleep(print) {
      const { plan, context } = target();
      const isWhole = sleepsWithoutMachines(plan.config.cluster);
      const of = readClusterTarget(source.stack);
      const probe = clusterProbe(of.stack.context);
      const servers = isWhole ? await changeServers(of, probe, "sleep") : await cluster.sleep(print);
      if (isWhole) {
        print(`${serverTable(servers)}\n`);
        await scaleAutoscaler(plan, probe, 0);
      }
      print(`\n${await changePools(plan, context, "sleep")}`);
      if (isWhole)
        print(
          `\nGateway, encoders and databases end with their machines; documents stay on their disks, and engines in the store. Nothing answers until \`npx engine-room wake --stack ${context.stack}\`.\n`,
        );
      print(`\n${asleepLine(plan, context.stack)}`);
      return servers;
    },
    // Machines first: new pods wait for them.
    async wake(print) {
      const { plan, context } = target();
      const of = readClusterTarget(source.stack);
      const probe = clusterProbe(of.stack.context);
      print(`${await changePools(plan, context, "wake")}\n`);
      await scaleAutoscaler(plan, probe, 1);
      await awaitControllers(probe, context.stack);
      const woken = await cluster.wake(print);
      if (woken.isComplete) await awaitServers(of, probe);
      return woken;
    },
  };
}

/** Undefined if the stack file has problems, which `up` reports itself, and which `down` ignores. */
function knownTarget({ stack }: StackSource): AwsTarget | undefined {
  try {
    return readAwsTarget(stack);
  } catch (error) {
    if (error instanceof ConfigError) return undefined;
    throw error;
  }
}

export function ec2Operations(source: StackSource): Operations {
  const target = () => readInstanceTarget(source.stack);
  /**
   * A command for each container of the stack file, by service: Docker reports containers that the machine lacks. A session is that of
   * `ssm-user`, whom the agent puts among the sudoers; if an account's sessions have another user, that user must be allowed the same.
   * https://github.com/aws/amazon-ssm-agent/releases/tag/2.3.68.0
   */
  const sessions = async (command: (container: string) => string) => {
    const { stack, context } = target();
    const id = await requireMachine(context);
    return new Map(
      stack.containers.map(({ args: { name } }) => [
        serviceName(source.stack.name, name),
        { argv: terminalSession(context.region, id, command(name)) },
      ]),
    );
  };
  return {
    ...awsOperations(source),
    logged: "containers",
    status: () => instanceStatus(target()),
    logs: ({ lines, follow }) =>
      sessions((name) => `sudo docker logs --tail ${lines}${follow ? " --follow" : ""} ${name}`),
    shells: () => sessions((name) => `sudo docker exec -it ${name} ${SHELL}`),
    async genaiPerf({ model, load }) {
      const { plan, context } = target();
      const { record, argv } = containerRun(plan, model, load, objectName(source.stack.name, model));
      const line = shellLine(["sudo", ...argv]);
      const command = line.replaceAll(" \\\n  ", " ");
      return commandRun(record, line, async () =>
        terminalSession(context.region, await requireMachine(context), command),
      );
    },
    async forwarding(parts, claimPort) {
      const { stack, context } = target();
      const wanted = wantedEndpoints(stack.endpoints, parts, /(^|\/)127\.0\.0\.1:/);
      const addresses = await forwards(wanted, claimPort);
      return {
        addresses,
        where: "ON THE MACHINE",
        commands: async () => sessionForwards(context.region, await requireMachine(context), addresses),
        // The load balancer may answer only its own network; a session reaches the gateway in any case.
        endpoints: { ...localEndpoints(stack.endpoints, addresses), ...HERE },
        outputs: (known) => known(),
      };
    },
    async sleep(print) {
      const { context, plan } = readAwsTarget(source.stack);
      print(await changeMachine(context, "sleep"));
      print(asleepLine(plan, source.stack.name));
      return [];
    },
    async wake(print) {
      const { context } = readAwsTarget(source.stack);
      print(await changeMachine(context, "wake"));
      return { isComplete: true, servers: [] };
    },
  };
}

/** State of the machine; only a session on it shows its containers. */
async function instanceStatus({ context }: InstanceTarget): Promise<StatusReport> {
  const { region, stack } = context;
  const machine = await stackMachine(context);
  if (machine === null)
    return statusReport(
      [],
      false,
      [],
      [`The stack ${stack} has no machine in ${region}; \`npx engine-room up --stack ${stack}\` creates it.`],
    );
  const { id, type, state } = machine;
  const isRunning = state === "running";
  const containers = terminalSession(region, id, "sudo docker compose -p engine-room ps --all");
  return statusReport(
    [{ name: "machine", id, type, state }],
    isRunning,
    [],
    [
      `machine ${id} ${type} in ${region}: ${state}`,
      isRunning
        ? `List its containers with:\n${shellLine(containers)}`
        : `\`npx engine-room wake --stack ${stack}\` starts it.`,
    ],
  );
}
