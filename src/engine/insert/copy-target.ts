/** The COPY into some columns of a table, and the queue of the batches that share it. */
import { LRUCache } from 'lru-cache';
import type { EncodedBatch } from '../../codec/index.js';
import { type Fragment, ident, join, literal, sql, type Step } from '../../pg/index.js';
import type { Table } from '../catalog/catalog.js';
import { CopyQueue } from './copy-queue.js';

type CopyFormat = EncodedBatch['format'];

/** The encoder's mark for a default; in a value, a backslash is doubled. */
const DEFAULT_MARK = '\\D';

const OPTIONS: Readonly<Record<CopyFormat, Fragment>> = {
  binary: sql`FORMAT binary`,
  text: sql`FORMAT text`,
  marked: sql`FORMAT text, DEFAULT ${literal(DEFAULT_MARK)}`,
};

/** The most targets kept per table: each set of columns in a batch is one. */
const MAX_TARGETS = 16;

/** The target of a COPY: some columns of a table, in one format. Batches with the same target can share a COPY. */
export class CopyTarget {
  readonly queue: CopyQueue;

  constructor(
    private readonly text: string,
    private readonly format: CopyFormat,
    maxWaiting: number,
  ) {
    this.queue = new CopyQueue(maxWaiting);
  }

  /** The COPY of batches that were encoded for this target. */
  step(batches: readonly EncodedBatch[]): Step {
    const data = batches.map((batch) => batch.data);
    return { text: this.text, params: [], data, ...(this.format === 'binary' && { format: this.format }) };
  }
}

/**
 * Returns a function that finds the target for the columns and format of a batch.
 * @param maxWaiting the most batches that may wait for each target
 */
export function copyTargets({ schema, name, columns }: Table, maxWaiting: number): (rows: EncodedBatch) => CopyTarget {
  const known = new LRUCache<string, CopyTarget>({ max: MAX_TARGETS });
  return ({ format, columns: given }) => {
    const key = `${format} ${given.join()}`;
    const found = known.get(key);
    if (found !== undefined) return found;
    const names = join(given.map((index) => ident(columns[index]?.name ?? '')));
    const copy = sql`COPY ${ident(schema, name)} (${names}) FROM STDIN (${OPTIONS[format]})`;
    const target = new CopyTarget(copy.text, format, maxWaiting);
    known.set(key, target);
    return target;
  };
}
