import { operationsOf } from "../platforms/index.ts";
import { checkTable, findingsReport } from "../preflight/finding.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary:
    "Looks whether the machine, cluster or account of a stack has what the stack needs; changes nothing.",
  usage: "[--json]",
  details: [
    "--json               {host, findings}; a finding has severity, check, what, why, fix; of a cluster or an account also checks, all that was looked at: {looksAt, findings}, the number of what was found",
    "Exit code 1 when there is a problem; warnings alone leave it 0.",
  ],
  options: { json: { type: "boolean" } },
  async run({ stack, values }) {
    const { host, findings, checks } = await (await operationsOf(stack)).preflight();
    const counts = checks?.map(({ looksAt, findings: found }) => ({ looksAt, findings: found.length }));
    process.stdout.write(
      values.json === true
        ? `${JSON.stringify({ host, checks: counts, findings }, null, 2)}\n`
        : `${checks === undefined ? "" : `${checkTable(checks)}\n`}${findingsReport(host, findings)}`,
    );
    return findings.some(({ severity }) => severity === "problem") ? EXIT.failed : EXIT.ok;
  },
};
