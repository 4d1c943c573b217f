import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { DockerStack } from "../../../../infra/plan/docker/docker-stack.ts";
import { projectRoot } from "../../../../scripts/program/stack-file.ts";
import { corrected, corrections, type ExpectedContainer } from "./corrections.ts";
import { type DocumentLine, documentLines } from "./document-lines.ts";
import { containerLine, parseRunLine } from "./run-line.ts";
import { containerOf, exampleValues, stackOf, type Values } from "./stacks.ts";

/** A model of an example, and the documents' lines that start the same. */
interface Counterpart {
  readonly example: string;
  /** Host for a stack of another platform. */
  readonly host: Values | null;
  readonly model: string;
  readonly lines: readonly DocumentLine[];
  readonly httpPort: number;
  readonly serves: string;
  readonly builds: string;
  readonly hasToken: boolean;
}

const oneGpu = { host: null, httpPort: 8000, serves: "all", builds: "all", hasToken: false };
const onA10G = { instanceType: "g5.4xlarge" };
/** Four L40S: the guide's five models take them all, the first once more. */
const onL40S = { instanceType: "g6e.12xlarge", diskGiB: 600 };

const counterparts: readonly Counterpart[] = [
  { ...oneGpu, example: "llava-1.5", model: "llava", lines: ["llava"] },
  { ...oneGpu, example: "gpt2-medium-encoders", model: "gpt2-medium", lines: ["backendReadme"] },
  {
    ...oneGpu,
    example: "llama-2-7b-chat-kubernetes",
    host: onA10G,
    model: "llama-2-7b-chat",
    lines: ["llama"],
    hasToken: true,
  },
  {
    example: "llama-2-7b-tutorial",
    host: null,
    model: "llama-2-7b",
    lines: ["llama"],
    httpPort: 8000,
    serves: "device=0",
    builds: "device=2",
    hasToken: true,
  },
  {
    example: "llama-2-7b-tutorial",
    host: null,
    model: "llama-2-7b-cli",
    lines: ["llamaCli"],
    httpPort: 8010,
    serves: "device=1",
    builds: "device=2",
    hasToken: true,
  },
  ...["blip2", "vila", "onevision", "mllama"].map((model, index) => ({
    example: "multimodal-guide",
    host: onL40S,
    model,
    lines: ["multimodal", "multimodalOwnImage"] as const,
    httpPort: 8000 + 10 * index,
    serves: `device=${index}`,
    builds: `device=${index}`,
    hasToken: true,
  })),
  // A batch of 8 needs a whole L40S, so it gets a host of its own.
  {
    ...oneGpu,
    example: "multimodal-guide",
    host: { instanceType: "g6e.4xlarge", diskGiB: 300 },
    model: "llava",
    lines: ["multimodal", "multimodalOwnImage"],
    hasToken: true,
  },
];

/** The example's stack; of several models in a guide those that share its host. */
function stackOfCounterpart({ example, host, model }: Counterpart): DockerStack {
  const values = exampleValues(example, host);
  if (example !== "multimodal-guide") return stackOf(values);
  const models = (values.models as readonly { readonly name: string }[]).filter(
    ({ name }) => (name === "llava") === (model === "llava"),
  );
  return stackOf({ ...values, models });
}

function expectedOf(
  one: Counterpart,
  stack: DockerStack,
  task: ExpectedContainer["task"],
): ExpectedContainer {
  const server = containerOf(stack, "triton", one.model);
  const { key } = server.container;
  const build = stack.containers.find(
    ({ container }) => container.role === "engineBuild" && container.key === key,
  );
  if (build === undefined || key?.length !== 64) throw new Error(`${one.model} has no engine.`);
  return {
    stack: "demo",
    name: task === "serve" ? `demo-${one.model}` : build.args.name,
    alias: task === "serve" ? one.model : build.container.name,
    model: task === "serve" ? one.model : (build.container.model ?? ""),
    key,
    task,
    httpPort: one.httpPort,
    gpus: task === "serve" ? one.serves : one.builds,
    hasToken: one.hasToken,
    startPeriodSeconds: Math.ceil(server.container.startSeconds ?? 0),
  };
}

const pairs = counterparts.flatMap((one) =>
  one.lines.map((line) => [one.example, one.model, line, one] as const),
);

describe.each(pairs)("%s: %s, from %s", (_example, model, document, one) => {
  const stack = stackOfCounterpart(one);
  const line = parseRunLine(documentLines[document]);

  test("the server's container is the corrected line of the document", () => {
    const expected = expectedOf(one, stack, "serve");
    expect(containerLine(containerOf(stack, "triton", model), stack)).toEqual(corrected(line, expected));
  });

  test("the build's container has the same options as the corrected line", () => {
    const expected = expectedOf(one, stack, "build");
    const build = stack.containers.find(({ args }) => args.name === expected.name);
    if (build === undefined) throw new Error("no build");
    expect(build.args.name).toMatch(/^demo-[a-z0-9.-]+-[0-9a-f]{12}$/);
    expect(containerLine(build, stack)).toEqual(corrected(line, expected));
  });
});

test("every line of the documents has a model, and every correction changes a line", () => {
  const used = new Set(counterparts.flatMap(({ lines }) => lines));
  expect([...used].toSorted()).toEqual(Object.keys(documentLines).toSorted());
  const idle = Object.entries(corrections).filter(([, correct]) =>
    pairs.every(([, , document, one]) => {
      const stack = stackOfCounterpart(one);
      const line = parseRunLine(documentLines[document]);
      return (["build", "serve"] as const).every(
        (task) => JSON.stringify(correct(line, expectedOf(one, stack, task))) === JSON.stringify(line),
      );
    }),
  );
  expect(idle.map(([name]) => name)).toEqual([]);
});

test("docs/walkthroughs/README.md lists exactly the corrections of the tests", () => {
  const text = readFileSync(join(projectRoot, "docs/walkthroughs/README.md"), "utf8");
  const [, section = ""] = text.split("## Their `docker run`");
  const names = [...section.matchAll(/^\| \*\*(.+?)\*\* \|/gm)].map(([, name]) => name);
  expect(names).toEqual(Object.keys(corrections));
});

test("a `docker run` line is parsed into options, image and command", () => {
  expect(parseRunLine(documentLines.multimodal)).toEqual({
    options: [
      ["--gpus", "all"],
      ["--network", "host"],
      ["--rm", null],
      ["--volume", "`pwd`:/mnt"],
      ["--workdir", "/mnt"],
      ["-ti", null],
    ],
    image: String.raw`nvcr.io/nvidia/tritonserver:\<yy.mm\>-trtllm-python-py3`,
    command: ["bash"],
  });
});
