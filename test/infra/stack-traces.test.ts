import { expect, test } from "vitest";
import { runProgram } from "../../scripts/program/run-program.ts";
import { readStackFile, stackReference } from "../../scripts/program/stack-file.ts";
import { program } from "./platforms/program.ts";

test.each(["kind", "dev"])(
  "%s, a stack in a cluster, is registered without stack traces; what comes after it has them again",
  async (stack) => {
    const before = Error.stackTraceLimit;
    const limits = new Set<number>();
    const config = readStackFile(stackReference(stack));
    await runProgram({
      stack,
      config,
      program: program(config),
      preview: true,
      owner: {
        async register({ type, inputs }) {
          if (type.startsWith("kubernetes:")) limits.add(Error.stackTraceLimit);
          return { outputs: inputs };
        },
        registerOutputs() {},
      },
    });
    expect([...limits]).toEqual([0]);
    expect(before).toBeGreaterThan(0);
    expect(Error.stackTraceLimit).toBe(before);
  },
);
