/** Lines for people who wait for a run: slow steps, and missing programs. */
import { appendFileSync } from "node:fs";

/** `npm test` shows it at once; without it, Vitest's own output has it. */
export function tell(line: string): void {
  const { ENGINE_ROOM_TEST_EVENTS: events } = process.env;
  if (events === undefined) process.stderr.write(`${line}\n`);
  else appendFileSync(events, `${JSON.stringify({ line })}\n`);
}
