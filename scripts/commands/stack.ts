/** Commands that call a stack's backend or its platform: options, a call, and output. */
import { resolve } from "node:path";
import { operationsOf } from "../platforms/index.ts";
import { checkTable, findingsReport } from "../preflight/finding.ts";
import { callerDirectory } from "../program/stack-file.ts";
import { readApprovedPreview } from "../stack/approved-preview.ts";
import { endStack, openStack, requireOutputs } from "../stack/backend.ts";
import { isConfirmed } from "../stack/confirm.ts";
import { endpointTable, unreachableEndpoints } from "../stack/endpoint-table.ts";
import { requireKnownStack } from "../stack/stack-paths.ts";
import { forTerminal, highlighted } from "../terminal-text.ts";
import { defineCommand } from "./command.ts";

/** Items of `changes` in each JSON object. */
const CHANGE = "a change has operation (create, update, replace, delete, delete-replaced), name, type, urn";

export const preflight = defineCommand({
  options: {
    "--json":
      "print JSON: {host, findings}; a finding has severity, check, what, why, fix; of a cluster or an account also checks: {looksAt, findings}, the number of findings of each check",
  },
  notes: ["Changes nothing. Exit code 1 when there is a problem; warnings leave it 0."],
  async run({ stack }) {
    const { host, findings, checks } = await (await operationsOf(stack)).preflight();
    return {
      json: {
        host,
        checks: checks?.map(({ looksAt, findings: found }) => ({ looksAt, findings: found.length })),
        findings,
      },
      text: highlighted(
        `${checks === undefined ? "" : `${checkTable(checks)}\n`}${findingsReport(host, findings)}`,
      ),
      isOk: findings.every(({ severity }) => severity !== "problem"),
    };
  },
});

export const preview = defineCommand({
  options: {
    "--diff": "every changed property, also hashes and triggers",
    "--expect-no-changes": "exit code 1 when something would change",
    "--json": `print JSON: {stack, changes, unchanged}; ${CHANGE}`,
  },
  notes: ["Changes nothing."],
  async run({ stack, values, out }) {
    const changes = await (await openStack(stack)).preview({ isFull: values.diff === true, out });
    const isOk = changes.changes.length === 0 || values.expectNoChanges !== true;
    if (!isOk) process.stderr.write("The preview has changes, and --expect-no-changes expects none.\n");
    return { json: { stack: stack.name, ...changes }, isOk };
  },
});

export const up = defineCommand({
  options: {
    "--json": `print JSON: {stack, changes, unchanged, outputs}; ${CHANGE}; outputs are those of \`outputs --json\``,
    "-y, --yes": "rent machines without confirmation; CI=true means the same",
    "--policies":
      "fail if a mandatory policy of the stack is broken (docs/policies.md); needs the Pulumi CLI",
    "--approved <file>":
      "apply only the changes in this file, which `ci approved-preview` wrote; if a preview has others, fail and change nothing (docs/ci.md); refreshes nothing, and needs the Pulumi CLI",
  },
  notes: ["Unchanged resources are not touched."],
  async run({ stack, values }) {
    const approved =
      values.approved === undefined
        ? undefined
        : readApprovedPreview(resolve(callerDirectory(), values.approved));
    const operations = await operationsOf(stack);
    await operations.installPrograms(false);
    const backend = await openStack(stack, "up");
    if (!(await isConfirmed(stack, backend, "up", values.yes === true))) return 1;
    const changes = await backend.up({ enforcesPolicies: values.policies === true, approved });
    return { json: { stack: stack.name, ...changes, outputs: (await backend.outputs()) ?? null } };
  },
});

export const refresh = defineCommand({
  options: { "--json": "print JSON: {stack, changes, unchanged}; a change has operation, name, type, urn" },
  notes: ["A missing resource is shown and removed from the state; the next `up` creates it again."],
  async run({ stack }) {
    requireKnownStack(stack);
    return { json: { stack: stack.name, ...(await (await openStack(stack)).refresh()) } };
  },
});

export const down = defineCommand({
  options: {
    "--delete-data": "also delete the documents of its databases",
    "--json":
      "print JSON: {stack, changes, unchanged, isRestKnown}; a change has operation, name, type, urn; isRestKnown is false if AWS does not say what still costs money",
    "-y, --yes": "delete rented machines and their data without confirmation; CI=true means the same",
  },
  notes: [
    "On AWS everything is deleted, documents too; a stack that `retain` names is refused. In a cluster documents are deleted if `retain` is given without the stack. Downloads stay in the cache. On AWS it lists by tag what still costs money at the end, and how each is deleted. Exit code 1 if AWS does not say, and if the account has resources of the stack that are not in its state.",
  ],
  async run({ stack, values, out }) {
    requireKnownStack(stack);
    if (!(await isConfirmed(stack, await openStack(stack), "down", values.yes === true))) return 1;
    const { isRestKnown, changes } = await endStack(stack, values.deleteData === true, out);
    return { json: { stack: stack.name, ...changes, isRestKnown }, isOk: isRestKnown };
  },
});

export const outputs = defineCommand({
  options: { "--json": "print the outputs as one JSON object" },
  async run({ stack }) {
    const json = await requireOutputs(stack);
    const isElsewhere = (await operationsOf(stack)).isBehindSsh();
    // Not part of the object, which describes the deployed stack.
    for (const { name, address } of isElsewhere ? [] : await unreachableEndpoints(json))
      process.stderr.write(`  No answer: ${name} at ${address}\n`);
    return { json, text: forTerminal(endpointTable(json), process.stdout) };
  },
});

export const sleep = defineCommand({
  options: {
    "--json":
      "print JSON: {stack, servers}; a server has server, from, to, note; the report goes to standard error",
  },
  notes: [
    "Nothing is deleted: `npx engine-room wake` brings the servers back, with their engines. All else stays as it is. KEDA-managed models stay at their schedule and load; an `up` that changes one of the others wakes it. On EKS all machines of the cluster end, those of gateway, databases and controllers too, and `up` and `down` start what they need; the machine of a stack on EC2 is stopped.",
  ],
  asksCluster: true,
  async run({ stack, out }) {
    const servers = await (await operationsOf(stack)).sleep((text) => out.write(text));
    return { json: { stack: stack.name, servers } };
  },
});

export const wake = defineCommand({
  options: {
    "--json":
      "print JSON: {stack, isComplete, servers}; a server has server, from, to, note; the report goes to standard error",
  },
  notes: [
    "It prints how long each server takes by the plan. On EKS it waits until all of them run, and the load balancer sends requests; elsewhere `npx engine-room status` shows how far they are.",
    "Exit code 1 when the cluster lacks one of the servers.",
  ],
  asksCluster: true,
  async run({ stack, out }) {
    const { isComplete, servers } = await (await operationsOf(stack)).wake((text) => out.write(text));
    return { json: { stack: stack.name, isComplete, servers }, isOk: isComplete };
  },
});
