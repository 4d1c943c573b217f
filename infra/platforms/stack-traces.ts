/**
 * The SDK writes a stack trace to each of its promises, four for every property of a resource, and mapping them to
 * TypeScript is a quarter of a preview; only that variable has it print them. Errors keep their messages. Not before all
 * modules are loaded: tsx, where it loads them, tells by a trace who asks for one.
 */
export function leaveOutStackTraces(): void {
  if (process.env.PULUMI_DEBUG_PROMISE_LEAKS === undefined) Error.stackTraceLimit = 0;
}
