import { type Document, deserialize, Long, serialize } from "bson";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { crc32c } from "../../../containers/services/mock-mongo/src/crc32c.ts";
import { MessageReader } from "../../../containers/services/mock-mongo/src/message-reader.ts";
import { CursorReply, encodeReply } from "../../../containers/services/mock-mongo/src/reply.ts";
import {
  MAX_MESSAGE_BYTES,
  parseMessage,
  WireError,
} from "../../../containers/services/mock-mongo/src/wire.ts";

function header(length: number, opCode: number): Buffer {
  const bytes = Buffer.alloc(16);
  bytes.writeInt32LE(length, 0);
  bytes.writeInt32LE(7, 4);
  bytes.writeInt32LE(opCode, 12);
  return bytes;
}

function message(opCode: number, ...parts: readonly Uint8Array[]): Buffer {
  const body = Buffer.concat(parts);
  return Buffer.concat([header(16 + body.length, opCode), body]);
}

function flags(bits: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(bits);
  return bytes;
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value);
  return bytes;
}

const body = (document: Document) => Buffer.concat([Buffer.from([0]), serialize(document)]);

function sequence(name: string, documents: readonly Uint8Array[]): Buffer {
  const rest = Buffer.concat([Buffer.from(`${name}\0`), ...documents]);
  return Buffer.concat([Buffer.from([1]), int32(4 + rest.length), rest]);
}

function withChecksum(whole: Buffer): Buffer {
  const changed = Buffer.concat([whole, Buffer.alloc(4)]);
  changed.writeInt32LE(changed.length, 0);
  changed.writeUInt32LE(whole.readUInt32LE(16) | 1, 16);
  changed.writeUInt32LE(crc32c(changed.subarray(0, -4)), changed.length - 4);
  return changed;
}

const ping = message(2013, flags(0), body({ ping: 1, $db: "admin" }));

describe("OP_MSG", () => {
  test("keeps documents as bytes, from the body and from sequences", () => {
    const documents = [serialize({ a: 1 }), serialize({ b: { c: 2 } })];
    const inBody = parseMessage(
      message(
        2013,
        flags(2),
        body({ insert: "c", documents: documents.map((one) => deserialize(one)), $db: "d" }),
      ),
    );
    const inSequence = parseMessage(
      message(2013, flags(2), sequence("documents", documents), body({ insert: "c", $db: "d" })),
    );
    for (const request of [inBody, inSequence]) {
      expect(request.body).toEqual({ insert: "c", $db: "d" });
      expect(request.lists.get("documents")?.map((bytes) => Buffer.from(bytes))).toEqual(
        documents.map((bytes) => Buffer.from(bytes)),
      );
      expect(request).toMatchObject({ requestId: 7, isSilent: true, isLegacy: false });
    }
  });

  test("leaves a list of that name alone that holds no documents, or is deeper", () => {
    const { body: read, lists } = parseMessage(
      message(2013, flags(0), body({ find: "c", documents: [1, {}], filter: { documents: [{ a: 1 }] } })),
    );
    expect(lists.size).toBe(0);
    expect(read).toEqual({ find: "c", documents: [1, {}], filter: { documents: [{ a: 1 }] } });
  });

  test("reads a right checksum and refuses a wrong one", () => {
    expect(crc32c(Buffer.from("123456789"))).toBe(0xe3069283);
    const whole = withChecksum(ping);
    expect(parseMessage(whole).body).toEqual({ ping: 1, $db: "admin" });
    for (let index = 16; index < whole.length; index++) {
      const broken = Buffer.from(whole);
      broken[index] = (broken[index] ?? 0) ^ 4;
      expect(() => parseMessage(broken)).toThrow(WireError);
    }
  });

  test.each([
    ["an unknown flag", message(2013, flags(1 << 5), body({ ping: 1 }))],
    ["two bodies", message(2013, flags(0), body({ ping: 1 }), body({ ping: 1 }))],
    ["no body", message(2013, flags(0))],
    [
      "a list given twice",
      message(2013, flags(0), body({ a: 1, documents: [{}] }), sequence("documents", [])),
    ],
    ["a section of another kind", message(2013, flags(0), Buffer.from([9, 5, 0, 0, 0, 0]))],
    ["a section that is too long", message(2013, flags(0), Buffer.from([0, 99, 0, 0, 0, 0]))],
    ["a compressed body", message(2012, flags(0))],
    ["an old insert", message(2002, flags(0))],
    ["a query that is no command", message(2004, flags(0), Buffer.from("db.c\0"), Buffer.alloc(8))],
    ["nothing but a header", message(2013)],
  ])("is refused with %s", (_what, bytes) => {
    expect(() => parseMessage(bytes)).toThrow(WireError);
  });
});

test("the old hello is read, and answered in its own form", () => {
  const query = message(
    2004,
    ...[flags(0), Buffer.from("admin.$cmd\0"), int32(0), int32(-1), serialize({ isMaster: 1 })],
  );
  const request = parseMessage(query);
  expect(request).toMatchObject({ body: { isMaster: 1, $db: "admin" }, isLegacy: true });
  const reply = encodeReply(request, { ok: 1 });
  expect([reply.readInt32LE(0), reply.readInt32LE(8), reply.readInt32LE(12)]).toEqual([reply.length, 7, 1]);
  expect(deserialize(reply.subarray(36))).toEqual({ ok: 1 });
});

test("a cursor's documents go out byte for byte", () => {
  const documents = [serialize({ _id: 1 }), serialize({ x: [1, { y: 2 }] })];
  const batch = { id: Long.fromNumber(5), namespace: "d.c", documents };
  const reply = encodeReply(parseMessage(ping), new CursorReply(batch, "firstBatch"));
  expect(reply.readInt32LE(0)).toBe(reply.length);
  expect(deserialize(reply.subarray(21))).toEqual({
    cursor: { firstBatch: [{ _id: 1 }, { x: [1, { y: 2 }] }], id: 5, ns: "d.c" },
    ok: 1,
  });
  for (const bytes of documents) expect(reply.includes(Buffer.from(bytes))).toBe(true);
});

describe("whatever bytes come", () => {
  const isRefusedOrRead = (bytes: Buffer): void => {
    try {
      parseMessage(bytes);
    } catch (error) {
      expect(error).toBeInstanceOf(WireError);
    }
  };

  test("random ones are read or refused, and nothing else", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(2013, 2004, 2012, 0, -1),
        fc.uint8Array({ maxLength: 200 }),
        (opCode, bytes) => isRefusedOrRead(message(opCode, bytes)),
      ),
      { numRuns: 2000 },
    );
  });

  test("so are good messages with some bytes changed, or cut off", () => {
    const documents = [serialize({ _id: 1, a: "text", b: [1, 2] }), serialize({ c: new Date() })];
    const good = message(
      2013,
      ...[flags(0), body({ insert: "c", $db: "d", lsid: { a: 1 } }), sequence("documents", documents)],
    );
    const change = fc.tuple(fc.nat(good.length - 1), fc.nat(255));
    fc.assert(
      fc.property(
        fc.array(change, { minLength: 1, maxLength: 5 }),
        fc.nat(good.length - 16),
        (changes, cut) => {
          const bytes = Buffer.from(good.subarray(0, good.length - cut));
          for (const [index, value] of changes) bytes[index % bytes.length] = value;
          isRefusedOrRead(bytes);
        },
      ),
      { numRuns: 3000 },
    );
  });

  test("a document that nests a hundred thousand levels is no end of the process", () => {
    const levels = 100_000;
    const parts: Buffer[] = [];
    for (let level = levels; level > 0; level--)
      parts.push(Buffer.from([3, 97, 0]), int32(5 + 8 * (level - 1)));
    const nested = Buffer.concat([int32(5 + 8 * levels), ...parts, Buffer.alloc(levels + 1)]);
    isRefusedOrRead(message(2013, flags(0), Buffer.from([0]), nested));
  });
});

describe("messages from a socket", () => {
  test("are the same however the bytes are cut into chunks", () => {
    const messages = [ping, message(2013, flags(0), body({ find: "c", text: "x".repeat(500) })), ping, ping];
    const all = Buffer.concat(messages);
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1 }), (sizes) => {
        const reader = new MessageReader();
        const read: Buffer[] = [];
        for (let offset = 0, turn = 0; offset < all.length; turn++) {
          const size = sizes[turn % sizes.length] ?? 1;
          reader.add(all.subarray(offset, offset + size));
          offset += size;
          for (let whole = reader.take(); whole !== undefined; whole = reader.take())
            read.push(Buffer.from(whole));
        }
        expect(read).toEqual(messages);
        expect(reader.isWithinMessage).toBe(false);
      }),
    );
  });

  test.each([0, 15, -1, MAX_MESSAGE_BYTES + 1])(
    "of %d bytes are refused as soon as that is known",
    (length) => {
      const reader = new MessageReader();
      const bytes = int32(length);
      reader.add(bytes.subarray(0, 3));
      expect(reader.take()).toBeUndefined();
      reader.add(bytes.subarray(3));
      expect(() => reader.take()).toThrow(WireError);
    },
  );
});
