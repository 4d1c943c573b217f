/** The order in which a stack file names things decides nothing of what AWS is asked for: nothing is replaced for it. */
import { expect, test } from "vitest";
import { PUBLIC_GATEWAY } from "../../harness/aws/stacks.ts";
import { projectStackValues } from "../../harness/stack-files.ts";
import { rendered, type StackValues } from "./program.ts";

const role = (name: string) => `arn:aws:iam::111122223333:role/${name}`;

const network = { zones: ["c", "a", "b"], peeredCidrs: ["10.1.0.0/16", "10.2.0.0/16"] };
const existing = {
  vpcId: "vpc-01234567",
  cidr: "10.80.0.0/16",
  privateSubnets: ["c", "a", "b"].map((zone, index) => ({ id: `subnet-0000000${index}`, zone })),
  publicSubnets: ["b", "c", "a"].map((zone, index) => ({ id: `subnet-0000001${index}`, zone })),
};
const cluster = {
  ...projectStackValues("Pulumi.prod.yaml"),
  network,
  access: { apiCidrs: ["203.0.113.7/32", "198.51.100.7/32"], admins: [role("one"), role("two")] },
  guard: { emails: ["a@example.org", "b@example.org"] },
};
const machine = { ...projectStackValues("examples/ec2.yaml"), network };

/** All lists the other way round. */
function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed).reverse();
  return mapped(value, reversed);
}

/** Lists in one order: AWS's provider compares those that the stack file orders as sets. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) {
    const texts = value.map((one) => JSON.stringify(sorted(one)));
    return texts.sort().map((text) => JSON.parse(text) as unknown);
  }
  return mapped(value, sorted);
}

function mapped(value: unknown, map: (inner: unknown) => unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, map(inner)]));
}

async function asked(file: StackValues) {
  const { resources } = await rendered(file);
  return resources
    .filter(({ type, custom }) => custom && type.startsWith("aws:"))
    .map(({ urn, inputs }) => ({ urn, inputs: sorted(inputs) }));
}

test.each<readonly [string, StackValues]>([
  ["a cluster in three zones", cluster],
  ["a cluster in a network that is there", { ...cluster, network: { existing } }],
  ["one machine", machine],
  [
    "one public machine in a network that is there",
    { ...machine, network: { existing }, gateway: PUBLIC_GATEWAY },
  ],
])("%s is the same however its lists are ordered", async (_stack, file) => {
  const resources = await asked(file);
  expect(resources.length).toBeGreaterThan(20);
  expect(await asked(reversed(file) as StackValues)).toEqual(resources);
});
