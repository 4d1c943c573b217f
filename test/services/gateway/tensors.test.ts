import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  decodeResponse,
  encodeBytesTensor,
  encodeInferRequest,
  fp32Rows,
  fp32Values,
  int32Sum,
  TensorError,
} from "../../../containers/services/gateway/src/triton/tensors.ts";

/** An answer as the protocol's document describes it, built independently of the code under test. */
function answer(outputs: { name: string; datatype: string; shape: number[]; data: Buffer }[]): {
  body: Buffer;
  jsonBytes: number;
} {
  const header = {
    outputs: outputs.map(({ data, ...output }) => ({
      ...output,
      parameters: { binary_data_size: data.length },
    })),
  };
  const json = Buffer.from(JSON.stringify(header));
  return { body: Buffer.concat([json, ...outputs.map(({ data }) => data)]), jsonBytes: json.length };
}

describe("binary tensors", () => {
  it("writes BYTES elements as length and UTF-8", () => {
    expect(encodeBytesTensor(["ab", "", "é"]).toString("hex")).toBe(
      "02000000" + "6162" + "00000000" + "02000000" + "c3a9",
    );
  });

  it("puts any texts behind a header that says their size", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: "grapheme" }), { minLength: 1, maxLength: 20 }), (texts) => {
        const { body, jsonBytes } = encodeInferRequest(
          [{ name: "text", elements: texts }],
          ["text_embedding"],
        );
        const header = JSON.parse(body.toString("utf8", 0, jsonBytes));
        expect(header.inputs).toEqual([
          {
            name: "text",
            shape: [texts.length, 1],
            datatype: "BYTES",
            parameters: { binary_data_size: body.length - jsonBytes },
          },
        ]);
        expect(header.outputs).toEqual([{ name: "text_embedding", parameters: { binary_data: true } }]);
        const decoded: string[] = [];
        for (let offset = jsonBytes; offset < body.length; ) {
          const length = body.readUInt32LE(offset);
          decoded.push(body.toString("utf8", offset + 4, offset + 4 + length));
          offset += 4 + length;
        }
        expect(decoded).toEqual(texts.map((text) => Buffer.from(text).toString()));
      }),
    );
  });

  it("gives back every row of any FP32 output, bit by bit", () => {
    const rows = fc.integer({ min: 1, max: 5 }).chain((columns) =>
      fc.array(fc.array(fc.float({ noNaN: true }), { minLength: columns, maxLength: columns }), {
        minLength: 1,
        maxLength: 8,
      }),
    );
    fc.assert(
      fc.property(
        rows,
        fc.array(fc.integer({ min: 0, max: 1000 }), { minLength: 1, maxLength: 8 }),
        (vectors, counts) => {
          const columns = vectors[0]?.length ?? 0;
          const { body, jsonBytes } = answer([
            {
              name: "vector",
              datatype: "FP32",
              shape: [vectors.length, columns],
              data: Buffer.from(new Float32Array(vectors.flat()).buffer),
            },
            {
              name: "count",
              datatype: "INT32",
              shape: [counts.length, 1],
              data: Buffer.from(new Int32Array(counts).buffer),
            },
          ]);
          const tensors = decodeResponse(body, jsonBytes);
          expect(fp32Rows(tensors.get("vector"), vectors.length, columns).map(fp32Values)).toEqual(vectors);
          expect(int32Sum(tensors.get("count"), counts.length)).toBe(
            counts.reduce((sum, count) => sum + count, 0),
          );
        },
      ),
    );
  });

  it("never reads an answer as something else when bytes are cut off or added", () => {
    const { body, jsonBytes } = answer([
      { name: "vector", datatype: "FP32", shape: [2, 3], data: Buffer.alloc(24) },
    ]);
    for (let length = 0; length < body.length; length++) {
      expect(() => decodeResponse(body.subarray(0, length), jsonBytes)).toThrow(TensorError);
    }
    expect(() => decodeResponse(Buffer.concat([body, Buffer.alloc(1)]), jsonBytes)).toThrow(
      "1 bytes of the answer belong to no output",
    );
    expect(() => decodeResponse(body, Number.NaN)).toThrow(TensorError);
  });

  it("says what was expected of an output and what came", () => {
    const { body, jsonBytes } = answer([
      { name: "vector", datatype: "FP32", shape: [1, 4], data: Buffer.alloc(16) },
    ]);
    const tensors = decodeResponse(body, jsonBytes);
    expect(() => fp32Rows(tensors.get("vector"), 1, 384)).toThrow(
      "expected FP32 [1,384] in 1536 bytes, got FP32 [1,4] in 16",
    );
    expect(() => int32Sum(tensors.get("vector"), 1)).toThrow(
      "expected INT32 [1,1] in 4 bytes, got FP32 [1,4] in 16",
    );
    expect(() => fp32Rows(tensors.get("missing"), 1, 4)).toThrow("is not in the answer");
  });

  it("refuses an output that came as JSON", () => {
    const json = Buffer.from(
      JSON.stringify({ outputs: [{ name: "vector", datatype: "FP32", shape: [1, 1], data: [1] }] }),
    );
    expect(() => decodeResponse(json, json.length)).toThrow("came as JSON");
  });
});
