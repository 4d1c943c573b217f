/** Renders the endpoints of a stack as Markdown: for the summary of a job, and the comment of a pull request. */
import { z } from "zod";
import { code, codeBlock, type Inline, link, markdownInline } from "../markdown.ts";

const triton = z.object({ http: z.string(), grpc: z.string(), metrics: z.string() });

/** Part of `npx engine-room outputs --json` that is shown. */
export const shownOutputsSchema = z.object({
  endpoints: z.object({
    gateway: z.string(),
    mongo: z.string().nullable(),
    vector: z.string().nullable(),
    encoders: triton.nullable(),
    models: z.record(z.string(), triton.extend({ generate: z.string() })),
    gatewayReach: z.string(),
    reach: z.string(),
  }),
  notes: z.array(z.string()),
});
type ShownOutputs = z.infer<typeof shownOutputsSchema>;

const REACH: Readonly<Record<string, string>> = {
  public: "from anywhere",
  vpc: "from within the virtual network",
  cluster: "from within the cluster; `npx engine-room connect` brings them to another machine",
  host: "from the host itself; `npx engine-room connect` brings them to another machine",
};

/**
 * A heading, a point for each endpoint, who reaches them, and the notes.
 *
 * @param pullRequest - Number of the pull request of a stack whose file is in no commit: adds the commands that reach
 *   the stack.
 */
export function outputsSummary(
  stack: string,
  { endpoints, notes }: ShownOutputs,
  pullRequest?: string,
): string {
  const { gateway, mongo, vector, encoders, models, gatewayReach, reach } = endpoints;
  const rows: readonly (readonly [name: Inline, address: string | null])[] = [
    [["Gateway"], gateway],
    [["Encoders, HTTP"], encoders?.http ?? null],
    [["Encoders, gRPC"], encoders?.grpc ?? null],
    ...Object.entries(models).flatMap(([name, { generate, grpc }]): [Inline, string][] => [
      [[code(name), ", generate"], generate],
      [[code(name), ", gRPC"], grpc],
    ]),
    [["Documents"], mongo],
    [["Vectors"], vector],
  ];
  const words = (from: string) => REACH[from] ?? `from: ${from}`;
  const connect = [
    "",
    "On your machine, with a kubeconfig of the cluster and the branch checked out:",
    "",
    codeBlock("console", [
      `$ npx engine-room ci preview-stack-file --pull-request ${pullRequest}`,
      `$ npx engine-room connect --stack ${stack}`,
    ]),
  ];
  return [
    `### Stack ${markdownInline([code(stack)])}`,
    "",
    ...rows.flatMap(([name, address]) =>
      address === null ? [] : [`- ${markdownInline([...name, ": ", code(address)])}`],
    ),
    "",
    markdownInline([
      gatewayReach === reach
        ? `Reached ${words(reach)}.`
        : `The gateway is reached ${words(gatewayReach)}; the others ${words(reach)}.`,
    ]),
    ...notes.map((note) => `\n> ${markdownInline([note])}`),
    ...(pullRequest === undefined || gatewayReach === "public" ? [] : connect),
    "",
  ].join("\n");
}

/**
 * Renders the text in place of endpoints if a commit's stack did not come up, so that no one takes an earlier
 * commit's for its own.
 *
 * @param commit - In full.
 */
export function previewStackFailure(stack: string, commit: string, runUrl: string): string {
  const text: Inline = [
    "The stack ",
    code(stack),
    " did not come up at ",
    code(commit.slice(0, 12)),
    ", or did not answer as it should: ",
    link("the run", runUrl),
    " gives the reason. Resources of an earlier commit may still exist.",
  ];
  return `${markdownInline(text)}\n`;
}
