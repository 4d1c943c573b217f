import { expect, test } from "vitest";
import { Registries } from "../../../components/aws/registries.ts";
import type { AwsContext } from "../../../infra/plan/aws/types.ts";
import { byName, CONTEXT, registeredBy, treeOf } from "./registered.ts";

const plan = { name: "engine-room/services", image: "services", keptImages: 9 };

const made = (context: AwsContext) =>
  registeredBy(() => {
    new Registries("registries", { context, repositories: [plan] });
  });

test("a repository keeps what a tag means, looks images over, and forgets old ones", async () => {
  const found = await made(CONTEXT);
  expect(treeOf(found)).toEqual([
    "aws:ecr/lifecyclePolicy:LifecyclePolicy registries-services-lifecycle < registries",
    "aws:ecr/repository:Repository registries-services < registries",
    "engine-room:aws:Registries registries < engine-room-demo",
  ]);
  expect(byName(found, "registries-services").inputs).toEqual({
    name: "engine-room/services",
    imageTagMutability: "IMMUTABLE",
    imageScanningConfiguration: { scanOnPush: true },
    forceDelete: true,
    tags: { ...CONTEXT.tags, Name: "engine-room-demo-services" },
  });
  expect(byName(found, "registries-services-lifecycle").inputs).toEqual({
    repository: "engine-room/services",
    policy: expect.stringContaining('"countNumber":9'),
  });
});

test("a retained stack's images are not deleted with it", async () => {
  const found = await made({ ...CONTEXT, isRetained: true });
  expect(byName(found, "registries-services").inputs.forceDelete).toBe(false);
});
