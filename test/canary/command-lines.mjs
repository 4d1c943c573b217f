/**
 * Runs commands of the project one after another in this process, each as `npm run` begins it:
 *
 *     node test/canary/command-lines.mjs LISTS-OF-WORDS-AS-JSON OUT-FILE
 *
 * The file then has the output of each, as JSON.
 */
import { writeFileSync } from "node:fs";
import { importSource } from "../../loader/import-source.mjs";

const [lines, out] = process.argv.slice(2);
const { main } = await importSource("scripts/commands/main.ts");
const printed = [];
for (const words of JSON.parse(lines)) {
  let text = "";
  for (const stream of [process.stdout, process.stderr])
    stream.write = (chunk, encoding, done) => {
      text += chunk;
      (typeof encoding === "function" ? encoding : done)?.();
      return true;
    };
  await main(words).catch((error) => {
    text += error.stack;
  });
  printed.push(text);
}
writeFileSync(out, JSON.stringify(printed));
process.exit();
