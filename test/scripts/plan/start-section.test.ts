/** Cold starts as a plan prints them, of a pool whose machines are rented. */
import { describe, expect, test } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import type { AwsPlan } from "../../../infra/plan/gpu-stack.ts";
import { coldStartSection } from "../../../scripts/plan/start-section.ts";
import { eksValues } from "../../infra/plan/aws/stacks.ts";

const [gpu, cpu] = eksValues.pools;

const planOf = (changes: object = {}) =>
  checkedPlan({ ...eksValues, pools: [{ ...gpu, ...changes }, cpu] }).plan as AwsPlan;

/** Seconds and words of the sums. */
function sums(plan: AwsPlan): readonly string[] {
  return coldStartSection(plan).lines.flatMap((line) => {
    const [, row] = /^ *sum +(.+)$/.exec(line) ?? [];
    return row === undefined ? [] : [row.replaceAll(/ +/g, " ")];
  });
}

describe("sums of a model's cold start", () => {
  test("have one case where no machine and no image waits for it", () => {
    expect(sums(planOf())).toEqual(["492 8 min"]);
  });

  test("have one of a new machine besides where one stays warm", () => {
    expect(sums(planOf({ warm: 1 }))).toEqual([
      expect.stringMatching(/^492 .+ on a new machine$/),
      expect.stringMatching(/^312 .+ on a machine that runs$/),
      expect.stringMatching(/^7 .+ on a machine that runs and has the image$/),
    ]);
  });

  test("have no pull on a machine that runs where images are kept there", () => {
    expect(sums(planOf({ prePullImages: true }))).toEqual([
      expect.stringMatching(/^492 .+ on a new machine$/),
      expect.stringMatching(/^7 .+ on a machine that runs and has the image$/),
    ]);
  });

  test("leave a first `up` as it is: all its machines are new", () => {
    const { firstUp } = planOf();
    for (const changes of [{ prePullImages: true }, { warm: 1 }])
      expect(planOf(changes).firstUp.steps.at(-1)).toEqual(firstUp.steps.at(-1));
  });
});
