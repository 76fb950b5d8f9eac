/** Compares a copy with its source: the schema, the rows, sequences and large objects. */
import { createHash } from 'node:crypto';
import type { Session } from '../../pg/index.js';
import { countIn } from '../logical/snapshot.js';
import type { Placement } from '../../tenancy/placement.js';
import type { Verification } from '../../contract/moves.js';
import type { Entry } from '../logical/dump-entries.js';
import { differentOthers, othersOf } from './others.js';
import { type CopiedTable, rowsOf, tablesOf } from './tables.js';

/** What must be equal after a copy, except for the schema. */
export interface Summary {
  readonly tables: ReadonlyMap<string, Rows>;
  /** Empty if the source is written to during the copy. */
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
    tables.set(table.shown, await (verify === 'full' ? hashed : counted)(session, table));
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
  readonly rows: number;
  /** A hash of all rows, in any order; null: not requested. */
  readonly hash: string | null;
}

async function counted(session: Session, { parts }: CopiedTable): Promise<Rows> {
  let rows = 0;
  for (const part of parts) rows += await countIn(session, part);
  return { rows, hash: null };
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
  return { rows, hash: BigInt.asUintN(64, sum).toString(16) };
}

function differentTables(before: ReadonlyMap<string, Rows>, after: ReadonlyMap<string, Rows>): string[] {
  return [...new Set([...before.keys(), ...after.keys()])].flatMap((name) => {
    const [from, to] = [before.get(name), after.get(name)];
    if (from === undefined || to === undefined) return [`${name}: exists only ${from ? 'before' : 'after'} the copy`];
    if (from.rows !== to.rows) return [`${name}: ${from.rows} rows before, and ${to.rows} after`];
    return from.hash === to.hash ? [] : [`${name}: the contents of its rows differ`];
  });
}

/**
 * Names the entries of the schema that differ. For the same schema, pg_dump writes the same text except for the names
 * of roles.
 * @param hasTexts also compares the texts of the entries, which may differ between major versions
 */
export function differentEntries(
  before: readonly Entry[],
  after: readonly Entry[],
  from: Placement,
  to: Placement,
  hasTexts: boolean,
): string[] {
  const described = (entries: readonly Entry[], { writer, reader }: Placement): Set<string> =>
    new Set(
      entries.map(({ kind, schema, name, text }) => {
        const what = `${schema}.${name} (${kind})`;
        const says = text
          .replaceAll(new RegExp(`\\b${writer}\\b`, 'g'), 'writer')
          .replaceAll(new RegExp(`\\b${reader}\\b`, 'g'), 'reader');
        return hasTexts ? `${what}\0${says}` : what;
      }),
    );
  const [old, copied] = [described(before, from), described(after, to)];
  const differing = [...old].filter((one) => !copied.has(one)).concat([...copied].filter((one) => !old.has(one)));
  return [...new Set(differing.map((one) => one.split('\0')[0] ?? ''))].map((what) => `${what}: differs`);
}
