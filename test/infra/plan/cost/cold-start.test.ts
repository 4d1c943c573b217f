import { describe, expect, it } from "vitest";
import { coldStart } from "../../../../infra/plan/cost/cold-start.ts";
import { enginePlan } from "../../../../infra/plan/engine/engine-plan.ts";
import { modelOf, poolOf, present, stackOf } from "../fit/stacks.ts";

const model = modelOf("llama-2-7b");
const engine = enginePlan(model.engine);
const stack = stackOf([model], [poolOf("g5.2xlarge")]);

function stepsOf(of: ReturnType<typeof coldStart>): Readonly<Record<string, number>> {
  return Object.fromEntries(of.steps.map(({ what, seconds }) => [what, seconds]));
}

describe("coldStart", () => {
  it("adds machine, image, copy and load", () => {
    const start = coldStart(model, stack, engine);
    expect(start.steps.map(({ what }) => what)).toEqual(["node", "imagePull", "engineCopy", "load"]);
    expect(start.seconds).toBe(start.steps.reduce((sum, { seconds }) => sum + seconds, 0));
    // 18.3 GB at 60 MB/s, and 12.55 GiB at 250 MB/s.
    expect(stepsOf(start)).toMatchObject({ imagePull: 305, engineCopy: 54 });
  });

  it("waits for no machine where none is rented", () => {
    for (const platform of ["docker", "kubernetes"] as const) {
      expect(stepsOf(coldStart(model, { ...stack, platform }, engine))).not.toHaveProperty("node");
    }
    const owned = { ...stack, pools: [poolOf("g5.2xlarge", { capacity: "owned" })] };
    expect(stepsOf(coldStart(model, owned, engine))).not.toHaveProperty("node");
  });

  it("is bound by the store's bandwidth", () => {
    const copy = (readMBPerSecond: number) =>
      present(
        stepsOf(coldStart(model, { ...stack, store: { ...stack.store, readMBPerSecond } }, engine))
          .engineCopy,
        "copy",
      );
    expect(copy(100)).toBe(135);
    expect(copy(1000)).toBe(13);
  });

  it("loads as Triton did with 14.96 GiB in 15 s, ranks at the same time", () => {
    const load = (tensorParallel: number) => {
      const split = modelOf("llama-2-7b", { engine: { tensorParallel } });
      return present(stepsOf(coldStart(split, stack, enginePlan(split.engine))).load, "load");
    };
    expect(load(1)).toBe(18);
    expect(load(2)).toBe(11);
  });

  it("reads the weights where there is no engine, and starts PyTorch", () => {
    const start = coldStart(model, stack, null);
    expect(start.steps.find(({ what }) => what === "engineCopy")?.arithmetic).toMatch(
      /^weights of 12\.55 GiB/,
    );
    expect(stepsOf(start).load).toBe(78);
  });

  it("says so where an image's size is unknown", () => {
    const unknown = { ...stack, release: { ...stack.release, imageGB: null } };
    const pull = coldStart(model, unknown, engine).steps.find(({ what }) => what === "imagePull");
    expect(pull?.arithmetic).toContain("size unknown");
  });

  it("pulls no image that machines of others have before, and says what of their disks that takes", () => {
    const pools = [poolOf("g5.2xlarge", { prePullsImages: true, capacity: "owned" })];
    const start = coldStart(model, { ...stack, pools }, engine);
    expect(start.steps.find(({ what }) => what === "imagePull")).toEqual({
      what: "imagePull",
      seconds: 0,
      arithmetic: "18.3 GB of every machine's disk, pulled before",
    });
    expect(start.onRunningMachine).toEqual([]);
  });

  describe("on a rented machine", () => {
    const started = (min: number, prePullsImages = false) =>
      coldStart(
        model,
        { ...stack, pools: [poolOf("g5.2xlarge", { nodes: { min, max: 2 }, prePullsImages })] },
        engine,
      );
    // Machine 180, image 305, copy 54, load 18.
    const isNew = 557;
    const withoutImage = { hasImage: false, seconds: 377 };
    const withImage = { hasImage: true, seconds: 72 };

    it("is the longest on a new one, which has no image whatever is pulled onto others", () => {
      for (const start of [started(0), started(0, true), started(1), started(1, true)]) {
        expect(start.seconds).toBe(isNew);
        expect(stepsOf(start)).toMatchObject({ node: 180, imagePull: 305 });
      }
    });

    it("waits for no machine where one stays, and for no image that is kept there", () => {
      expect(started(0).onRunningMachine).toEqual([]);
      expect(started(1).onRunningMachine).toEqual([withoutImage, withImage]);
      expect(started(0, true).onRunningMachine).toEqual([withImage]);
      expect(started(1, true).onRunningMachine).toEqual([withImage]);
    });
  });

  it("refuses a model whose pool is not there", () => {
    expect(() => coldStart(modelOf("llama-2-7b", { pool: "gone" }), stack, engine)).toThrow(/no pool gone/);
  });
});
