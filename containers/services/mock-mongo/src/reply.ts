/** Replies of the wire protocol. Documents of a cursor go out as the bytes that are stored. */
import { type Document, Double } from "bson";
import type { Batch } from "./cursors.ts";
import { BSON_ARRAY, BSON_DOCUMENT, elementHead, elementsIn, joinElements, write } from "./documents.ts";
import { HEADER_BYTES, OP_MSG, OP_REPLY, type Request } from "./wire.ts";

/** The reply to a command that opens or advances a cursor. */
export class CursorReply {
  readonly ok = 1;
  readonly batch: Batch;
  readonly field: "firstBatch" | "nextBatch";

  constructor(batch: Batch, field: CursorReply["field"]) {
    this.batch = batch;
    this.field = field;
  }
}

export type Reply = Document | CursorReply;

/** The whole message, header included. @throws CommandError 10334 when it is too large. */
export function encodeReply(request: Request, reply: Reply): Buffer {
  const body = reply instanceof CursorReply ? cursorBody(reply) : write(reply);
  const prefix = request.isLegacy ? legacyPrefix() : msgPrefix();
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeInt32LE(HEADER_BYTES + prefix.length + body.length, 0);
  header.writeInt32LE(request.requestId, 8);
  header.writeInt32LE(request.isLegacy ? OP_REPLY : OP_MSG, 12);
  return Buffer.concat([header, prefix, body]);
}

function cursorBody({ batch, field }: CursorReply): Uint8Array {
  const list = joinElements(
    batch.documents.flatMap((bytes, index) => [elementHead(BSON_DOCUMENT, String(index)), bytes]),
  );
  const cursor = joinElements([
    elementHead(BSON_ARRAY, field),
    list,
    elementsIn({ id: batch.id, ns: batch.namespace }),
  ]);
  return joinElements([elementHead(BSON_DOCUMENT, "cursor"), cursor, elementsIn({ ok: new Double(1) })]);
}

/** Flags, and the kind of the only section. */
function msgPrefix(): Buffer {
  return Buffer.alloc(5);
}

/** Flags (await capable), cursor, first document, number of documents. */
function legacyPrefix(): Buffer {
  const prefix = Buffer.alloc(20);
  prefix.writeInt32LE(8, 0);
  prefix.writeInt32LE(1, 16);
  return prefix;
}
