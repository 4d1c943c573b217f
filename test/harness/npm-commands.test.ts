import { expect, test } from "vitest";
import { npmCommands, parseNpmCommand } from "./npm-commands.ts";

test("npm commands are found over lines, pipes, quotes and comments", () => {
  expect(
    npmCommands(
      'npm ci\nnpm run --silent ci -- drift --stack "$S" \\\n  --preview f | tee x\nnpm run test:unit\n' +
        '$ npm run ask -- "Born in France, Soyer; who?"   # to the first\nsay `npm run down -- --stack dev`, or not',
    ),
  ).toEqual([
    { script: "ci", args: ["drift", "--stack", "$S", "--preview", "f"] },
    { script: "test:unit", args: [] },
    { script: "ask", args: ["Born in France, Soyer; who?"] },
    { script: "down", args: ["--stack", "dev"] },
  ]);
});

test.each(["npm run nothing", "npm run outputs -- --jsn", "npm run ci -- dance", "npm run up -- now"])(
  "the wrong command line `%s` is refused",
  async (line) => {
    for (const command of npmCommands(line)) await expect(parseNpmCommand(command)).rejects.toThrow();
  },
);
