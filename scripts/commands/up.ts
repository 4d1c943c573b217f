import { UsageError } from "../errors.ts";
import { operationsOf } from "../platforms/index.ts";
import { openStack } from "../stack/backend.ts";
import { isConfirmed } from "../stack/confirm.ts";
import { defineCommand, EXIT, printJson } from "./command.ts";

export const command = defineCommand({
  options: {
    "--json":
      "print JSON: {stack, changes, unchanged, outputs}; a change has operation (create, update, replace, delete, delete-replaced), name, type, urn; outputs are those of `outputs --json`",
    "-y, --yes": "rent machines without a question; CI=true means the same",
    "--registries":
      "of a stack on AWS the image repositories alone, which take images before all else is made",
    "--policies":
      "fail where a mandatory policy of the stack is broken (docs/policies.md); needs the Pulumi CLI",
  },
  notes: ["Unchanged resources are not touched."],
  async run({ stack, values }) {
    const operations = await operationsOf(stack);
    const isForRegistries = values.registries === true;
    const targets = isForRegistries ? operations.registries : [];
    if (targets === null) throw new UsageError("--registries is for stacks of `platform: aws`.");
    if (isForRegistries) process.env.ENGINE_ROOM_ONLY_REGISTRIES = "1";
    await operations.installPrograms(false);
    const backend = await openStack(stack, "up");
    if (!(await isConfirmed(stack, backend, "up", values.yes === true))) return EXIT.failed;
    const changes = await backend.up({ targets, enforcesPolicies: values.policies === true });
    if (!isForRegistries) await operations.afterUp();
    if (values.json === true)
      printJson({ stack: stack.name, ...changes, outputs: (await backend.outputs()) ?? null });
    return EXIT.ok;
  },
});
