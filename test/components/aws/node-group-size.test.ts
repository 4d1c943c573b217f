/** Sizes of node groups, with a fake that has EKS's own rules: it keeps absent sizes, and refuses sizes that do not fit. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { nodeGroupSizeHandler } from "../../../components/local/provider/node-group-size.ts";
import { type FakeAws, type FakeService, startFakeAws, stubCredentials } from "../../scripts/aws/fake-aws.ts";

const ARN = "arn:aws:eks:us-east-1:111122223333:nodegroup/engine-room-dev/gpu-1/aaaa-1";

interface Group {
  size: { minSize: number; maxSize: number; desiredSize: number };
  /** One after the other, the last one again and again. */
  readonly statuses?: string[];
  readonly updates?: object[];
  readonly arn?: string;
}

const group = (minSize: number, maxSize: number, desiredSize: number) => ({
  size: { minSize, maxSize, desiredSize },
});

function eks(group: Group | null): FakeService {
  const statusOf = ({ statuses = [] }: Group) => (statuses.length > 1 ? statuses.shift() : statuses[0]);
  return (action, { body, path }) => {
    if (group === null || !path.startsWith("/clusters/engine-room-dev/"))
      return { error: "ResourceNotFoundException", status: 404 };
    switch (action) {
      case "eks:DescribeNodegroup": {
        const status = statusOf(group) ?? "ACTIVE";
        return { json: { nodegroup: { nodegroupArn: group.arn ?? ARN, status, scalingConfig: group.size } } };
      }
      case "eks:UpdateNodegroupConfig": {
        const size = { ...group.size, ...(body.scalingConfig as Partial<Group["size"]>) };
        if (size.minSize > size.desiredSize || size.desiredSize > size.maxSize)
          return { error: "InvalidParameterException" };
        group.size = size;
        return { json: { update: { id: "update-1", status: "InProgress" } } };
      }
      case "eks:DescribeUpdate":
        return { json: { update: group.updates?.shift() ?? { status: "Successful" } } };
      default:
        return { error: "NotAsked" };
    }
  };
}

const handler = nodeGroupSizeHandler(0);
const context = { report: () => undefined };
const sizeOf = (min: number, max: number, nodeGroupArn = ARN) => ({ nodeGroupArn, min, max });

let aws: FakeAws | undefined;

beforeEach(stubCredentials);
afterEach(async () => {
  await aws?.close();
  vi.unstubAllEnvs();
});

async function use(group: Group | null): Promise<void> {
  aws = await startFakeAws(eks(group));
  vi.stubEnv("AWS_ENDPOINT_URL", aws.url);
}

test.each([
  ["starts the machines that a raised least number asks for", group(0, 2, 0), sizeOf(1, 2), group(1, 2, 1)],
  ["keeps running machines if the largest number is raised", group(0, 4, 4), sizeOf(0, 6), group(0, 6, 4)],
  ["ends machines above a lowered largest number", group(0, 4, 4), sizeOf(0, 2), group(0, 2, 2)],
  ["keeps what the autoscaler has started", group(0, 4, 3), sizeOf(1, 4), group(1, 4, 3)],
])("a size %s", async (_what, before, wanted, after) => {
  await use(before);
  await handler.update("", sizeOf(before.size.minSize, before.size.maxSize), wanted, context);
  expect(before).toEqual(after);
});

test("the size of a new group that has it already changes nothing", async () => {
  const before = { ...group(0, 2, 1), statuses: ["CREATING"] };
  await use(before);
  const { id, outs } = await handler.create("gpu", sizeOf(0, 2), context);
  expect([id, outs]).toEqual([ARN, sizeOf(0, 2)]);
  expect(aws?.asked).toEqual(["eks:DescribeNodegroup"]);
});

test("a size waits for a group that EKS updates, and until EKS has changed it", async () => {
  const before = { ...group(1, 1, 1), statuses: ["UPDATING", "ACTIVE"], updates: [{ status: "InProgress" }] };
  await use(before);
  await handler.create("gpu", sizeOf(0, 2), context);
  expect(before.size).toEqual({ minSize: 0, maxSize: 2, desiredSize: 1 });
  expect(aws?.asked).toEqual([
    "eks:DescribeNodegroup",
    "eks:DescribeNodegroup",
    "eks:UpdateNodegroupConfig",
    "eks:DescribeUpdate",
    "eks:DescribeUpdate",
  ]);
});

test("an interrupted wait ends", async () => {
  await use({ ...group(1, 1, 1), statuses: ["UPDATING"] });
  const signal = AbortSignal.timeout(50);
  await expect(handler.create("gpu", sizeOf(0, 2), { ...context, signal })).rejects.toThrow(/abort/i);
});

test.each([
  ["could not be made", { ...group(0, 1, 0), statuses: ["CREATE_FAILED"] }, "is CREATE_FAILED"],
  ["is gone", null, "is gone"],
  [
    "did not change",
    {
      ...group(0, 1, 0),
      updates: [{ status: "Failed", errors: [{ errorCode: "AccessDenied", errorMessage: "not now" }] }],
    },
    "(Failed): AccessDenied: not now",
  ],
])("a group that %s is an error with EKS's words", async (_what, group, words) => {
  await use(group);
  await expect(handler.create("gpu", sizeOf(0, 2), context)).rejects.toThrow(words);
});

test("a group of the same name with another ARN is never changed", async () => {
  const other = { ...group(0, 1, 0), arn: ARN.replace("111122223333", "444455556666") };
  await use(other);
  await expect(handler.create("gpu", sizeOf(0, 2), context)).rejects.toThrow("is gone");
  expect(other.size.maxSize).toBe(1);
});

test("a refresh sees a pool that sleeps, and a group that is gone", async () => {
  await use(group(0, 2, 1));
  expect((await handler.read(ARN, sizeOf(1, 2), context))?.outs).toEqual(sizeOf(0, 2));
  await aws?.close();
  await use(null);
  expect(await handler.read(ARN, sizeOf(1, 2), context)).toBeUndefined();
});

test("another group is another resource, and deleting a size does not call EKS", async () => {
  const { replaces } = await handler.diff(ARN, sizeOf(0, 1), sizeOf(0, 1, `${ARN.slice(0, -1)}2`));
  expect(replaces).toEqual(["nodeGroupArn"]);
  await use(null);
  await handler.delete(ARN, sizeOf(0, 1), context);
  expect(aws?.asked).toEqual([]);
});
