import fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import { processHandler } from "../../../components/local/provider/process.ts";
import {
  askProcess,
  asState,
  context,
  createProcess,
  makeEnvironment,
  makeProject,
  processInputs,
  removeProject,
} from "./fixtures.ts";

let root: string;
beforeAll(async () => {
  root = makeProject();
  await makeEnvironment("s");
});
afterAll(() => removeProject(root));

/** Any text of Unicode that the kernel can pass, with a leaning to what configuration formats trip over. */
const text = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        "%",
        "%(here)s",
        "%(ENV_HOME)s",
        "%%",
        " ;",
        " #",
        "\n",
        "\n[program:x]\n",
        "\r",
        "\t",
        '"',
        "'",
      ),
      fc.constantFrom("\\", ",", "=", "$HOME", "`id`", "{", "}", "{port.", "\u2028", "\u0085", "\ufeff"),
      fc.string({ unit: "binary", maxLength: 5 }),
    ),
    { maxLength: 8 },
  )
  .map((parts) => parts.join("").replaceAll("\0", ""))
  .filter((value) => !/\{(port\.[A-Za-z0-9_-]+|root)\}/.test(value));
const variable = fc.stringMatching(/^[A-Z_][A-Za-z0-9_]{0,12}$/).map((name) => `X_${name}`);

it("a child sees the arguments, variables and files that were given, whatever is in them", async () => {
  const first = await createProcess("s", "strings");
  let state = asState(first.outs);
  await fc.assert(
    fc.asyncProperty(
      fc.array(text, { maxLength: 4 }),
      fc.dictionary(variable, text, { maxKeys: 4 }),
      text,
      async (args, environment, content) => {
        const news = await processInputs("s", "strings", {
          command: ["python", "serve.py", "{port.http}", ...args],
          environment,
          files: { content },
        });
        state = (await processHandler.update(first.id, state, news, context)).outs;
        const answer = await askProcess(first.outs.ports.http);
        expect(answer.argv.slice(2)).toEqual(args);
        expect(answer.environment).toMatchObject(environment);
      },
    ),
    { numRuns: 30 },
  );
  await processHandler.delete(first.id, state, context);
});
