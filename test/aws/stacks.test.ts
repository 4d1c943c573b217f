import { beforeAll, describe, expect, test } from "vitest";
import { renderTree } from "../../scripts/diff/render-tree.ts";
import type { RenderedTree } from "../../scripts/diff/rendered-tree.ts";
import { projectRoot, stackReference } from "../../scripts/program/stack-file.ts";
import { argumentProblems } from "../harness/aws/arguments.ts";
import { lintPolicies, policyDocuments } from "../harness/aws/policies.ts";
import { awsPython } from "../harness/aws/python.ts";
import { ServiceModels } from "../harness/aws/service-models.ts";

const models = new ServiceModels(await awsPython());

const files = [
  ["dev", undefined],
  ["prod", undefined],
  ["ec2", "examples/ec2.yaml"],
] as const;

describe.each(files)("stack %s", (stack, file) => {
  let resources: NonNullable<RenderedTree["resources"]>;
  beforeAll(async () => {
    const { configFile } = stackReference(stack, file);
    const tree = await renderTree({ project: projectRoot, secretKey: "", stack, configFile });
    if (tree.resources === null) throw new Error(tree.failure ?? `The stack ${stack} has no graph.`);
    resources = tree.resources;
  });

  test("asks AWS for what AWS's own models of its APIs take", () => {
    expect(resources.filter(({ type }) => type.startsWith("aws:")).length).toBeGreaterThan(40);
    expect(resources.flatMap((resource) => argumentProblems(resource, models))).toEqual([]);
  });

  test("has policies in which a linter finds nothing", async () => {
    const documents = policyDocuments(resources);
    expect(Object.keys(documents).length).toBeGreaterThan(2);
    expect(await lintPolicies(documents)).toEqual([]);
  });
});
