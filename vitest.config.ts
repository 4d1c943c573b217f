import { defineConfig } from "vitest/config";

const minutes = (count: number) => count * 60_000;

/** For workers that run many files: a young generation of 16 MB, Node's own, is collected too often. */
const WORKER_OPTIONS = ["--max-semi-space-size=64"];

/** Modules are loaded once for all files of a worker: loading them again for each takes as long as the tests. */
const SHARED_MODULES = {
  setupFiles: ["test/harness/thorough.ts"],
  pool: "forks" as const,
  isolate: false,
  unstubEnvs: true,
  unstubGlobals: true,
  restoreMocks: true,
};

/** Recorded reports are 100 columns wide; commands otherwise use the width of the terminal. */
process.env.COLUMNS = "100";

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "unit",
          include: ["test/**/*.test.ts"],
          exclude: [
            "test/stack/**",
            "test/components/local/**",
            "test/services/**",
            "test/docker/**",
            "test/cluster/**",
            "test/aws/**",
          ],
          ...SHARED_MODULES,
          execArgv: WORKER_OPTIONS,
          maxWorkers: "100%",
          // They take seconds; the limit is for a machine that does other work beside them.
          testTimeout: minutes(2),
          hookTimeout: minutes(2),
        },
      },
      {
        test: {
          name: "services",
          include: ["test/services/**/*.test.ts", "test/components/local/**/*.test.ts"],
          ...SHARED_MODULES,
          // Half of their time they wait for processes and time-outs.
          maxWorkers: 2,
          testTimeout: minutes(2),
          hookTimeout: minutes(3),
        },
      },
      {
        test: {
          name: "stack",
          include: ["test/stack/**/*.test.ts"],
          pool: "forks",
          // Each file has stacks of its own; they mostly wait for processes to start.
          maxWorkers: 2,
          testTimeout: minutes(5),
          hookTimeout: minutes(5),
        },
      },
      {
        test: {
          name: "aws",
          include: ["test/aws/**/*.test.ts"],
          globalSetup: "test/harness/aws/global-setup.ts",
          pool: "forks",
          execArgv: WORKER_OPTIONS,
          // Each has a stand-in for AWS, which takes some 300 MB.
          maxWorkers: 2,
          unstubEnvs: true,
          // Some bring whole stacks up by the Pulumi CLI.
          testTimeout: minutes(5),
          hookTimeout: minutes(2),
        },
      },
      {
        test: {
          name: "docker",
          include: ["test/docker/**/*.test.ts"],
          globalSetup: "test/harness/docker/global-setup.ts",
          pool: "forks",
          // One engine for all files, which mostly wait for containers.
          maxWorkers: 2,
          testTimeout: minutes(10),
          // Packages of Python and npm come first, which may take long on a slow connection.
          hookTimeout: minutes(40),
        },
      },
      {
        test: {
          name: "cluster",
          include: ["test/cluster/**/*.test.ts"],
          globalSetup: "test/harness/kubernetes/global-setup.ts",
          pool: "forks",
          // One scheduler for all files: the nodes of one would take the pods of another.
          fileParallelism: false,
          // One worker for all files, which loads the program once.
          isolate: false,
          testTimeout: minutes(5),
          hookTimeout: minutes(5),
        },
      },
    ],
  },
});
