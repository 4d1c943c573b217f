/** Arithmetic of embeddings. Pure. */

export type Vector = readonly number[];

/** Cosine of vectors of unit length. @throws RangeError for other lengths of the lists. */
export function dot(left: Vector, right: Vector): number {
  if (left.length !== right.length) {
    throw new RangeError(`vectors of ${left.length} and ${right.length} numbers can't be compared`);
  }
  return left.reduce((sum, value, index) => sum + value * (right[index] as number), 0);
}

/** Largest difference of any two numbers at the same place; infinite where one is no number. @throws RangeError as {@link dot}. */
export function maxDifference(left: readonly Vector[], right: readonly Vector[]): number {
  if (left.length !== right.length) {
    throw new RangeError(`${left.length} and ${right.length} vectors can't be compared`);
  }
  return Math.max(
    0,
    ...left.flatMap((vector, row) => {
      const other = right[row] as Vector;
      if (vector.length !== other.length) {
        throw new RangeError(`vectors of ${vector.length} and ${other.length} numbers can't be compared`);
      }
      return vector.map((value, index) => {
        const difference = Math.abs(value - (other[index] as number));
        return Number.isNaN(difference) ? Infinity : difference;
      });
    }),
  );
}

/** Index of the text that is nearest to each picture. */
export function nearestTexts(pictures: readonly Vector[], texts: readonly Vector[]): number[] {
  return pictures.map((picture) => {
    const similarities = texts.map((text) => dot(picture, text));
    return similarities.indexOf(Math.max(...similarities));
  });
}
