/** A body that lies in several pieces of memory, which would cost a copy to be made one. */
export class Pieces {
  readonly length: number;

  constructor(readonly parts: readonly Buffer[]) {
    this.length = parts.reduce((sum, { length }) => sum + length, 0);
  }
}

/** @param parts one or more */
export function inPieces(parts: readonly Buffer[]): Buffer | Pieces {
  const [only] = parts;
  return parts.length === 1 && only !== undefined ? only : new Pieces(parts);
}
