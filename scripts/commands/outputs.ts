import { operationsOf } from "../platforms/index.ts";
import { requireOutputs } from "../stack/backend.ts";
import { endpointTable, silentEndpoints } from "../stack/endpoint-table.ts";
import { forTerminal } from "../terminal-text.ts";
import { defineCommand, EXIT } from "./command.ts";

export const command = defineCommand({
  options: { "--json": "print the outputs as one JSON object" },
  async run({ stack, values }) {
    const outputs = await requireOutputs(stack);
    const isElsewhere = (await operationsOf(stack)).isBehindSsh();
    process.stdout.write(
      values.json === true
        ? `${JSON.stringify(outputs, null, 2)}\n`
        : forTerminal(endpointTable(outputs), process.stdout),
    );
    // Not part of the object, which says what was deployed.
    for (const { name, address } of isElsewhere ? [] : await silentEndpoints(outputs))
      process.stderr.write(`  No answer: ${name} at ${address}\n`);
    return EXIT.ok;
  },
});
