/**
 * What the clients of a fault test sent and which answers they got, batch by batch, and the comparison of that with the
 * table: whatever broke in between, the responses must have been true.
 */
import { createHash } from 'node:crypto';
import type pg from 'pg';

/** Where clients write to; `size` is that of the whole batch, `note` follows from batch and place. */
export const LEDGER_TABLE = {
  table_name: 'ledger',
  columns: [
    { name: 'batch', type: 'TEXT' },
    { name: 'place', type: 'INTEGER' },
    { name: 'size', type: 'INTEGER' },
    { name: 'note', type: 'TEXT' },
  ],
};

/** The outcome of one attempt. */
export interface Reply {
  /** 0: no response came, or not all of it. */
  readonly status: number;
  /** The error code of a refusal, or the client's own name for what broke. */
  readonly code: string;
  readonly retryAfter: string | null;
  readonly ids?: readonly string[];
  readonly rows?: number;
  readonly replayed?: boolean;
  readonly ms: number;
  /** When it came. */
  readonly at: number;
}

export interface Batch {
  readonly name: string;
  readonly size: number;
  readonly key: string | null;
  /**
   * By the batch insert, by that with `return=ids`, by an upsert, with a bad record for the quarantine besides, by a
   * statement of free SQL; `delete` takes away by key what an upsert has stored.
   */
  readonly way: 'batch' | 'ids' | 'upsert' | 'quarantine' | 'delete' | 'sql';
  readonly replies: Reply[];
}

/** A replay from the quarantine: what was bad is there under another name, and has that of its batch as its note. */
export const REPLAYED = 'replayed';
export const REPLAY = JSON.stringify({ table: 'ledger', set: { batch: REPLAYED, place: 0 } });

export const noteOf = (batch: string, place: number): string =>
  createHash('md5').update(`${batch}:${place}`).digest('hex');

const INSERT = `INSERT INTO ledger (batch, place, size, note)
  SELECT batch, place, size, note FROM jsonb_to_recordset($1) AS r (batch text, place bigint, size bigint, note text)`;

const QUERIES = {
  batch: '',
  ids: '?return=ids',
  upsert: '?on_conflict=id',
  quarantine: '?on_error=quarantine',
  delete: '?by=id',
};

/** A batch's request. */
export function requestOf({ name, size, way }: Batch): { method: string; path: string; body: string } {
  const records: object[] = Array.from({ length: size }, (_, place) => {
    const note = noteOf(name, place);
    const id = note.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
    if (way === 'delete') return { id };
    return { ...(way === 'upsert' ? { id } : {}), batch: name, place, size, note };
  });
  if (way === 'quarantine') records.push({ batch: name, place: 'bad', note: name });
  const method = way === 'delete' ? 'DELETE' : 'POST';
  if (way === 'sql') return { method, path: '/api/cdp/sql', body: JSON.stringify({ sql: INSERT, params: [records] }) };
  return { method, path: `/api/cdp/data/ledger${QUERIES[way]}`, body: JSON.stringify(records) };
}

const isGood = ({ status }: Reply): boolean => status === 200 || status === 201;

/** The response leaves open whether the batch was stored. */
export const isOpen = ({ status, code }: Reply): boolean => status === 0 || code === 'outcome_unknown';

interface Stored {
  batch: string;
  rows: number;
  places: number;
  is_whole: boolean;
  ids: string[];
}

/** What a failed test says where rows are not as they were answered; by these words it is not tried again. */
export const UNTRUE = 'responses that the tables contradict';

/** What the comparison came to. `wrong` is empty where every response was true. */
export interface Verdict {
  /** Batches with a success, and rows in the table. */
  readonly acknowledged: number;
  readonly rows: number;
  /**
   * Batches that were refused at every attempt; that got no response or `outcome_unknown`, and of those how many are
   * there.
   */
  readonly refused: number;
  readonly open: number;
  readonly openAndStored: number;
  /** Batches with a key that needed more than one attempt. */
  readonly repeated: number;
  readonly wrong: readonly string[];
}

export class Ledger {
  readonly batches: Batch[] = [];

  add(name: string, size: number, key: string | null, way: Batch['way'] = 'batch'): Batch {
    const batch: Batch = { name, size, key, way, replies: [] };
    this.batches.push(batch);
    return batch;
  }

  get replies(): Reply[] {
    return this.batches.flatMap(({ replies }) => replies);
  }

  /** How often each code came, `201` for success. */
  get codes(): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const { code } of this.replies) counts[code] = (counts[code] ?? 0) + 1;
    return counts;
  }

  /** @param client in the project's database */
  async compare(client: pg.Client): Promise<Verdict> {
    const { rows } = await client.query<Stored>(
      `SELECT batch, count(*)::int AS rows, count(DISTINCT place)::int AS places,
         bool_and(note = md5(batch || ':' || place) AND place >= 0 AND place < size) AND count(*) = min(size)
           AND min(size) = max(size) AS is_whole,
         array_agg(id::text ORDER BY place) AS ids
       FROM data.ledger WHERE batch <> $1 GROUP BY batch`,
      [REPLAYED],
    );
    const stored = new Map(rows.map((row) => [row.batch, row]));
    const kept = this.batches.some(({ way }) => way === 'quarantine') ? await badRecords(client) : [];
    const names = new Set(stored.keys());
    const wrong: string[] = [];
    const count = { acknowledged: 0, refused: 0, open: 0, openAndStored: 0, repeated: 0 };
    for (const batch of this.batches) {
      const there = stored.get(batch.name);
      stored.delete(batch.name);
      const error = judge(batch, there);
      if (error !== null) wrong.push(`${batch.name} (${history(batch)}): ${error}`);
      if (batch.replies.some(isGood)) count.acknowledged++;
      else if (batch.replies.some(isOpen)) {
        count.open++;
        if (there !== undefined) count.openAndStored++;
      } else count.refused++;
      if (batch.key !== null && batch.replies.length > 1) count.repeated++;
    }
    const expected = this.batches.filter(({ name, way }) => way === 'quarantine' && names.has(name));
    if (
      kept.join() !==
      expected
        .map(({ name }) => name)
        .sort()
        .join()
    ) {
      wrong.push(`${kept.length} bad records are kept or replayed, ${expected.length} batches with one are stored`);
    }
    for (const name of stored.keys()) wrong.push(`${name} is in the table, and nobody has sent it`);
    return { ...count, rows: rows.reduce((sum, row) => sum + row.rows, 0), wrong: wrong.slice(0, 20) };
  }
}

/** The batches of those in the quarantine, and of those that were replayed. */
async function badRecords(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query<{ batch: string }>(
    `SELECT record::json->>'note' AS batch FROM _cdp.quarantine
     UNION ALL SELECT note FROM data.ledger WHERE batch = $1`,
    [REPLAYED],
  );
  return rows.map(({ batch }) => batch).sort();
}

/** @returns what is wrong with a batch; null where the table is as its responses say */
function judge({ size, key, replies }: Batch, there: Stored | undefined): string | null {
  const good = replies.filter(isGood);
  if (there !== undefined && !(there.is_whole && there.places === size)) {
    return `${there.rows} rows of ${there.places} places are there, of ${size}`;
  }
  for (const { ids, rows } of good) {
    if (rows !== size) return `it was answered that ${rows} rows of ${size} are stored`;
    if (there === undefined) return 'it was acknowledged and is not there';
    if (ids !== undefined && ids.join() !== there.ids.join()) return 'it was answered with other ids than are there';
  }
  if (key === null && good.length > 1) return 'a request was answered twice';
  // Not settled yet: the test has to repeat until it is.
  if (key !== null && good.length === 0) return 'its key was not settled';
  if (good.length === 0 && there !== undefined && !replies.some(isOpen)) return 'it was refused and is there';
  return null;
}

/** The same code in a row is named once. */
const history = ({ replies }: Batch): string =>
  replies
    .map(({ code }) => code)
    .filter((code, i, all) => code !== all[i - 1])
    .join(', ');
