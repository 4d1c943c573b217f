/** The Python packages of all test files of the project `aws`, before their processes want them at the same time. */
import { awsPython } from "./python.ts";

export default async function setup(): Promise<void> {
  await awsPython((line) => void process.stderr.write(`  ${line}\n`));
}
