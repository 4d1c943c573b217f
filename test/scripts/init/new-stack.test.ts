import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../../../infra/config/config.ts";
import {
  type Details,
  modelsOf,
  offers,
  PLACES,
  type Place,
  planned,
  stackFileText,
  wayOf,
} from "../../../scripts/init/new-stack.ts";
import { readStackFile, stackReference } from "../../../scripts/program/stack-file.ts";

const folder = mkdtempSync(join(tmpdir(), "engine-room-init-"));

afterAll(() => rmSync(folder, { recursive: true }));

const HUB_TOKENS: Readonly<Partial<Record<Place, string>>> = {
  docker: "/etc/engine-room/hub-token",
  kubernetes: "hub-token",
  ec2: "arn:aws:secretsmanager:us-east-1:111122223333:secret:hub-AbCdEf",
  eks: "arn:aws:secretsmanager:us-east-1:111122223333:secret:hub-AbCdEf",
};

const details: Details = {
  account: "111122223333",
  region: "us-east-1",
  apiCidr: "203.0.113.7/32",
  registry: "registry.example.org/engine-room",
  host: "ssh://ubuntu@gpu.example.org",
};

const choices = (Object.keys(PLACES) as Place[]).flatMap((where) =>
  modelsOf(where).map((model) => {
    const hubTokenAt = wayOf([model]) === "cpu" ? undefined : HUB_TOKENS[where];
    return { where, models: [model], details: { ...details, hubTokenAt } };
  }),
);

test.each(choices.map((choice) => [choice.models[0], choice.where, choice] as const))(
  "%s on %s is offered machines, and the written file plans on each as it was shown",
  (_model, _where, choice) => {
    const found = wayOf(choice.models) === "cpu" ? [planned(choice, "")] : offers(choice);
    expect(found.length).toBeGreaterThan(0);
    for (const { values, hint } of found) {
      const file = join(folder, "Pulumi.new.yaml");
      writeFileSync(file, stackFileText(values, [], "schema.json"));
      const read = fromRuntimeConfig(readStackFile(stackReference("new", file)).values);
      // Machines were planned with their values once; the cheapest is planned from the file.
      expect(read).toEqual(values);
      if (values !== found[0]?.values) continue;
      const { cost } = checkedPlan(read).plan;
      const price = cost.hourlyUsd === 0 ? "your own machine" : `$${cost.hourlyUsd?.toFixed(3)} an hour`;
      expect(hint).toContain(price);
    }
  },
);
