/** Compares a copy with its source: the schema, the rows, sequences and large objects. */
import { createHash } from 'node:crypto';
import type { DumpEntry } from '../backup/logical/dump-entries.js';
import { countIn } from '../backup/logical/snapshot.js';
import type { Verification } from '../contract/moves.js';
import { ident, type Session } from '../pg/index.js';
import type { Placement } from '../tenancy/placement.js';
import { type CopiedTable, largeObjects, partsOf, rowsOf, sequencesOf, tablesOf } from './contents.js';

/** What must be equal after a copy, except for the schema. */
export interface Summary {
  /** By quoted names. */
  readonly tables: ReadonlyMap<string, Rows>;
  /** Sequences and large objects by what people are shown; empty if the source is written to during the copy. */
  readonly others: ReadonlyMap<string, string>;
}

/** @param session of a role that can read everything */
export async function summaryOf(
  session: Session,
  placement: Placement,
  { verify, isWritten = false }: { readonly verify: Verification; readonly isWritten?: boolean },
): Promise<Summary> {
  const tables = new Map<string, Rows>();
  for (const table of await tablesOf(session, placement)) {
    tables.set(ident(table.schema, table.name).text, await (verify === 'full' ? hashed : countRows)(session, table));
  }
  return { tables, others: isWritten ? new Map() : await othersOf(session, placement, verify) };
}

/** Names what differs. */
export const differentContents = (before: Summary, after: Summary): string[] => [
  ...differentTables(before.tables, after.tables),
  ...differentOthers(before.others, after.others),
];

/** A summary of a table's rows. */
interface Rows {
  readonly table: string;
  readonly rows: number;
  /** A hash of all rows, in any order; null: not requested. */
  readonly hash: string | null;
}

async function countRows(session: Session, { displayName, parts }: CopiedTable): Promise<Rows> {
  let rows = 0;
  for (const part of parts) rows += await countIn(session, part);
  return { table: displayName, rows, hash: null };
}

async function hashed(session: Session, table: CopiedTable): Promise<Rows> {
  let rows = 0;
  let sum = 0n;
  for (const part of table.parts) {
    for await (const data of rowsOf(session, table, part)) {
      for (let start = 0, end = data.indexOf(10); end >= 0; start = end + 1, end = data.indexOf(10, start)) {
        rows++;
        // A sum, because the rows of partitions may come in another order.
        sum += createHash('md5').update(data.subarray(start, end)).digest().readBigUInt64LE();
      }
    }
  }
  return { table: table.displayName, rows, hash: BigInt.asUintN(64, sum).toString(16) };
}

function differentTables(before: ReadonlyMap<string, Rows>, after: ReadonlyMap<string, Rows>): string[] {
  return [...new Map([...before, ...after])].flatMap(([name, { table }]) => {
    const [from, to] = [before.get(name), after.get(name)];
    if (from === undefined || to === undefined) return [`${table}: exists only ${from ? 'before' : 'after'} the copy`];
    if (from.rows !== to.rows) return [`${table}: ${from.rows} rows before, and ${to.rows} after`];
    return from.hash === to.hash ? [] : [`${table}: the contents of its rows differ`];
  });
}

/**
 * What must be equal of sequences and large objects, by name.
 * @param verify full: includes the contents of large objects
 */
async function othersOf(session: Session, placement: Placement, verify: Verification): Promise<Map<string, string>> {
  const others = new Map<string, string>();
  for (const { schema, name, value, isCalled } of await sequencesOf(session, placement)) {
    // The names may contain dots, too.
    const key = `${schema}.${name} (SEQUENCE)`;
    others.set(key, `${others.get(key) ?? ''}${value} ${isCalled}`);
  }
  for (const { oid } of await largeObjects(session, placement)) {
    const hash = createHash('sha256');
    if (verify === 'full') for await (const { part } of partsOf(session, oid)) hash.update(part);
    others.set(`large object ${oid}`, hash.digest('hex'));
  }
  return others;
}

/** Names those that differ or are on one side only. */
const differentOthers = (before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): string[] =>
  [...new Set([...before.keys(), ...after.keys()])]
    .filter((name) => before.get(name) !== after.get(name))
    .map((name) => `${name}: differs`);

/**
 * Names the entries of the schema that differ. For the same schema, pg_dump writes the same text.
 * @param hasTexts also compares the texts of the entries, which may differ between major versions
 */
export function differentEntries(
  before: readonly DumpEntry[],
  after: readonly DumpEntry[],
  hasTexts: boolean,
): string[] {
  const textsOf = (entries: readonly DumpEntry[]): Set<string> =>
    new Set(
      entries.map(({ kind, schema, name, text }) => {
        const what = `${schema}.${name} (${kind})`;
        return hasTexts ? `${what}\0${text}` : what;
      }),
    );
  const [old, copied] = [textsOf(before), textsOf(after)];
  const differing = [...old].filter((one) => !copied.has(one)).concat([...copied].filter((one) => !old.has(one)));
  return [...new Set(differing.map((one) => one.split('\0')[0] ?? ''))].map((what) => `${what}: differs`);
}
