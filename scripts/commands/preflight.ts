import { operationsOf } from "../platforms/index.ts";
import { checkTable, findingsReport } from "../preflight/finding.ts";
import { highlighted } from "../terminal-text.ts";
import { defineCommand, EXIT } from "./command.ts";

export const command = defineCommand({
  options: {
    "--json":
      "print JSON: {host, findings}; a finding has severity, check, what, why, fix; of a cluster or an account also checks: {looksAt, findings}, the number of findings of each check",
  },
  notes: ["Changes nothing. Exit code 1 when there is a problem; warnings alone leave it 0."],
  async run({ stack, values }) {
    const { host, findings, checks } = await (await operationsOf(stack)).preflight();
    const counts = checks?.map(({ looksAt, findings: found }) => ({ looksAt, findings: found.length }));
    process.stdout.write(
      values.json === true
        ? `${JSON.stringify({ host, checks: counts, findings }, null, 2)}\n`
        : highlighted(
            `${checks === undefined ? "" : `${checkTable(checks)}\n`}${findingsReport(host, findings)}`,
          ),
    );
    return findings.some(({ severity }) => severity === "problem") ? EXIT.failed : EXIT.ok;
  },
});
