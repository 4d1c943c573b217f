import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fillTemplate, fillTemplateArgument, valueObstacle } from "../../../../infra/plan/repository/fill.ts";
import type { ParameterFacts } from "../../../../infra/plan/repository/parameters.ts";
import { enginePlanFor, modelSpec } from "./specs.ts";

/** `split` of tools/fill_template.py at v0.16.0, step by step. */
function split(text: string, delimiter: string): string[] {
  const result: string[] = [];
  let current = "";
  let escaped = false;
  for (const char of text) {
    if (escaped) {
      current += char;
      escaped = false;
    } else if (char === delimiter) {
      result.push(current);
      current = "";
    } else if (char === "\\") {
      escaped = true;
    } else {
      current += char;
    }
  }
  return [...result, current];
}

/** What the script understands; it fails where a part has not exactly one colon. */
function understood(argument: string, escapesCommas: boolean): Record<string, string> {
  const cut = escapesCommas ? split : (text: string, delimiter: string) => text.split(delimiter);
  return Object.fromEntries(
    cut(argument, ",").map((part) => {
      const [key, value, ...rest] = cut(part, ":");
      if (key === undefined || value === undefined || rest.length > 0)
        throw new Error(`can't unpack ${part}`);
      return [key, value];
    }),
  );
}

const keys = fc.stringMatching(/^[a-z_]{1,12}$/);

describe("fillTemplateArgument", () => {
  it("joins keys and values as the guides do", () => {
    const argument = fillTemplateArgument(
      { engine_dir: "/e", decoupled_mode: "False" },
      { escapesCommas: false },
    );
    expect(argument).toBe("engine_dir:/e,decoupled_mode:False");
  });

  it("escapes a comma once and a colon twice, because the script takes a level away at each split", () => {
    expect(fillTemplateArgument({ a: "0,1;2,3", b: "x:y" }, { escapesCommas: true })).toBe(
      "a:0\\,1;2\\,3,b:x\\\\:y",
    );
  });

  it("is understood by the script as it was meant, for every value that can be filled in", () => {
    const values = fc
      .string({ unit: fc.constantFrom(..."ab/:,;=. 字") })
      .filter((value) => valueObstacle(value, { escapesCommas: true }) === null);
    fc.assert(
      fc.property(fc.dictionary(keys, values, { minKeys: 1, noNullPrototype: true }), (substitutions) => {
        const argument = fillTemplateArgument(substitutions, { escapesCommas: true });
        expect(understood(argument, true)).toEqual(substitutions);
      }),
    );
    const plain = fc.stringMatching(/^[a-zA-Z0-9/._ -]*$/);
    fc.assert(
      fc.property(fc.dictionary(keys, plain, { minKeys: 1, noNullPrototype: true }), (substitutions) => {
        const argument = fillTemplateArgument(substitutions, { escapesCommas: false });
        expect(understood(argument, false)).toEqual(substitutions);
      }),
    );
  });

  it.each([
    ["/a,b", false],
    ["s3://b", false],
    ['/a"b', true],
    ["C:\\a", true],
    ["$" + "{HOME}", true],
    ["/a\nb", true],
  ])("refuses %j", (value, escapesCommas) => {
    expect(() => fillTemplateArgument({ engine_dir: value }, { escapesCommas })).toThrow(
      /^engine_dir can't be/,
    );
  });
});

describe("fillTemplate", () => {
  const model = modelSpec("llama-2-7b", "v0.20.0", "inflight_batcher_llm");
  const facts: ParameterFacts = {
    model,
    engine: enginePlanFor(model),
    kvCacheFreeGpuMemoryFraction: 0.5,
    decoupled: false,
    takesImages: false,
  };
  const template = "inflight_batcher_llm/tensorrt_llm";

  it("says which rule is missing for a placeholder of a new release", () => {
    expect(() => fillTemplate(template, { mandatory: [], optional: ["new_knob"] }, facts)).toThrow(
      /has the placeholder new_knob, for which repository\/parameters.ts has no rule/,
    );
  });

  it("leaves no mandatory placeholder to a default", () => {
    expect(() => fillTemplate(template, { mandatory: ["sink_token_length"], optional: [] }, facts)).toThrow(
      /does not load without sink_token_length/,
    );
  });

  it("sorts both halves", () => {
    const keysOfTemplate = {
      mandatory: ["triton_max_batch_size"],
      optional: ["sink_token_length", "engine_dir"],
    };
    const filled = fillTemplate(template, keysOfTemplate, facts);
    expect(Object.keys(filled.substitutions)).toEqual(["engine_dir", "triton_max_batch_size"]);
    expect(Object.keys(filled.defaults)).toEqual(["sink_token_length"]);
  });
});
