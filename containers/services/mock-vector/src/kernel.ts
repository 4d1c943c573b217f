/**
 * The inner loop of the search as a WebAssembly module with 128-bit SIMD: JavaScript's own loop takes several times as
 * long. The module is this function, written down instruction by instruction, so that there is no build step:
 *
 *     dots(query, row, rowBytes, rows, out): out[n] = the dot product of `query` and row n, all of them 32-bit floats
 *
 * Rows lie one behind the other. `rowBytes` is a multiple of ROW_ALIGNMENT_BYTES; rows are filled up with zeros.
 * Opcodes: https://webassembly.github.io/spec/core/binary/instructions.html
 */

/** Four vectors of four floats are multiplied per turn of the loop. */
export const ROW_ALIGNMENT_BYTES = 64;
export const PAGE_BYTES = 65_536;
/** A memory of WebAssembly has 32-bit addresses. */
export const MAX_PAGES = 65_536;

export type Dots = (query: number, row: number, rowBytes: number, rows: number, out: number) => void;

const I32 = 0x7f;
const V128 = 0x7b;
const EMPTY = 0x40;

const query = 0;
const row = 1;
const rowBytes = 2;
const rows = 3;
const out = 4;
/** Byte within the row. */
const position = 5;
/** Sums, four of them, so that no addition waits for the one before it. */
const sums = [6, 7, 8, 9] as const;

const get = (local: number) => [0x20, local];
const set = (local: number) => [0x21, local];
const tee = (local: number) => [0x22, local];
const END = 0x0b;
const I32_ADD = 0x6a;
const F32_ADD = 0x92;
const F32X4_ADD = [0xfd, 0xe4, 0x01];
const F32X4_MUL = [0xfd, 0xe6, 0x01];
/** Aligned to 16 bytes, that many bytes behind the address on the stack. */
const loadVector = (offset: number) => [0xfd, 0x00, 4, offset];
const zeroVector = [0xfd, 0x0c, ...new Array<number>(16).fill(0)];
const lane = (index: number) => [0xfd, 0x1f, index];
/** In LEB128, for 0 to 8191. */
const constant = (value: number) => (value < 64 ? [0x41, value] : [0x41, (value & 0x7f) | 0x80, value >> 7]);

const body = [
  [0x02, EMPTY], // block: the end
  [0x03, EMPTY], // loop: one row
  ...[get(rows), [0x45], [0x0d, 1]], // no rows left: leave the block
  ...sums.flatMap((sum) => [zeroVector, set(sum)]),
  ...[constant(0), set(position)],
  [0x03, EMPTY], // loop: 64 bytes of the row
  ...sums.flatMap((sum, index) => [
    get(sum),
    ...[get(query), get(position), [I32_ADD], loadVector(16 * index)],
    ...[get(row), get(position), [I32_ADD], loadVector(16 * index)],
    ...[F32X4_MUL, F32X4_ADD, set(sum)],
  ]),
  ...[get(position), constant(ROW_ALIGNMENT_BYTES), [I32_ADD], tee(position)],
  ...[get(rowBytes), [0x49], [0x0d, 0], [END]], // while position < rowBytes
  ...[get(sums[0]), get(sums[1]), F32X4_ADD, get(sums[2]), get(sums[3]), F32X4_ADD, F32X4_ADD],
  set(sums[0]),
  get(out), // the address of the store below
  ...[get(sums[0]), lane(0), get(sums[0]), lane(1), [F32_ADD]],
  ...[get(sums[0]), lane(2), get(sums[0]), lane(3), [F32_ADD], [F32_ADD]],
  [0x38, 2, 0], // f32.store, aligned to 4 bytes
  ...[get(row), get(rowBytes), [I32_ADD], set(row)],
  ...[get(out), constant(4), [I32_ADD], set(out)],
  ...[get(rows), constant(1), [0x6b], set(rows)], // rows - 1
  [0x0c, 0], // the next row
  [END, END, END],
].flat();

const code = [2, 1, I32, sums.length, V128, ...body];
const name = (text: string) => [text.length, ...Buffer.from(text)];
/** In LEB128, for 0 to 16383. */
const size = (value: number) => (value < 128 ? [value] : [(value & 0x7f) | 0x80, value >> 7]);
const section = (id: number, bytes: readonly number[]) => [id, ...size(bytes.length), ...bytes];

const module = new WebAssembly.Module(
  Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0], // "\0asm", version 1
    ...section(1, [1, 0x60, 5, I32, I32, I32, I32, I32, 0]), // types: five numbers to nothing
    ...section(2, [1, ...name("m"), ...name("m"), 2, 0, 0]), // imports: a memory of any size
    ...section(3, [1, 0]), // functions: one, of type 0
    ...section(7, [1, ...name("dots"), 0, 0]), // exports: function 0
    ...section(10, [1, ...size(code.length), ...code]),
  ]),
);

/** The function, working on a memory. */
export function instantiate(memory: WebAssembly.Memory): Dots {
  return new WebAssembly.Instance(module, { m: { m: memory } }).exports.dots as Dots;
}
