/**
 * The ledger: keyed hashes of the identifiers of everybody who was erased, by which a restored database is searched. The
 * database itself says which erasures it contains (`_cdp.erasures`), so that no clock decides.
 */
import { createHash } from 'node:crypto';
import type { SubjectKind } from '../../contract/wire/subjects.js';
import { BEGIN, COMMIT, fixed, ROLLBACK, sql, type Statement } from '../../pg/index.js';
import type { ErasureRow, Ledger, LedgerEntry } from '../../tenancy/control/subject-rows.js';
import { eraseSubject, SEE_EVERYTHING } from './erase-subject.js';
import { type Bounds, findSubject, normalizedColumn, type Values } from './find-subject.js';
import { hmac, type LedgerKey } from './subject-keys.js';
import { type Home, readSubjectCatalog, resolveKind, type Runner, type Subjects, tableName } from './subject-tables.js';

const sha256 = (...parts: readonly Buffer[]): Buffer => {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
};

/** Of one identifier of a project's data, so that hashes of others cannot be compared with it. */
const keyOfIdentifier = (key: Buffer, { lineage, kind }: Pick<ErasureRow, 'lineage' | 'kind'>, identifier: string) =>
  hmac(key, [lineage, kind, identifier].join('\0'));

export function ledgerOf(
  { id, key }: LedgerKey,
  erasure: Pick<ErasureRow, 'lineage' | 'kind'>,
  declaration: SubjectKind,
  values: Values,
): Ledger {
  const hashes = [...values].map(([identifier, texts]): [string, string[]] => {
    const own = keyOfIdentifier(key, erasure, identifier);
    return [identifier, Array.from(texts, (text) => sha256(own, sha256(own, Buffer.from(text))).toString('base64'))];
  });
  return { key: id, declaration, hashes: Object.fromEntries(hashes) };
}

/** Notes in the project's database that it contains the erasure, in its transaction. */
export const markErased = (id: string, result: unknown): Statement =>
  sql`INSERT INTO _cdp.erasures (id, result) VALUES (${id}::pg_catalog.uuid, ${JSON.stringify(result)}::pg_catalog.jsonb)
    ON CONFLICT DO NOTHING`;

/** What the database says of an erasure: when, and its result; null: it does not contain it. */
export async function markOf(db: Runner, id: string): Promise<{ erasedAt: string; result: unknown } | null> {
  const [row] = await db.query(
    sql`SELECT pg_catalog.to_char(pg_catalog.timezone('UTC', erased_at), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), result
      FROM _cdp.erasures WHERE id OPERATOR(pg_catalog.=) ${id}::pg_catalog.uuid`,
  );
  return row?.[0] == null ? null : { erasedAt: row[0], result: JSON.parse(row[1] ?? 'null') as unknown };
}

export interface Reapplied {
  /** Erasures that the database lacked, and rows that they took. */
  readonly erasures: number;
  readonly rows: number;
  /** What could not be applied, in words. */
  readonly notApplied: readonly string[];
}

/**
 * Erases again, in one transaction, whoever was erased after the state of a restored database.
 * @param db a session of the project's writer, without a transaction
 * @param saved the declaration in the backup: tables may have been renamed since
 * @throws EngineError, PostgresError: nothing was erased, and the project must not be used
 */
export async function reapply(
  db: Runner,
  home: Home,
  entries: readonly LedgerEntry[],
  keys: ReadonlyMap<string, LedgerKey>,
  saved: Readonly<Record<string, SubjectKind>> | null,
): Promise<Reapplied> {
  await db.run([BEGIN]);
  try {
    const rows = await db.query(sql`SELECT id FROM _cdp.erasures`);
    const contained = new Set(rows.map(([id]) => id));
    const lacking = entries.filter(({ id }) => !contained.has(id));
    const sealed = lacking.filter(({ ledger }) => !keys.has(ledger.key));
    const notApplied =
      sealed.length === 0
        ? []
        : [
            `${sealed.length} of its erasures, because the secret of this installation does not open their ledger. Copy the file "secret" of the old data folder (or its CDP_SECRET) and restore again`,
          ];
    let erased = 0;
    for (const group of groupsOf(lacking.filter(({ ledger }) => keys.has(ledger.key))))
      erased += await reapplyGroup(db, home, group, keys, saved, notApplied);
    const applied = lacking.filter((entry) => !sealed.includes(entry));
    if (applied.length > 0) await db.run(applied.map(({ id }) => markErased(id, null)));
    await db.run([COMMIT]);
    return { erasures: applied.length, rows: erased, notApplied };
  } catch (error) {
    // The first failure tells more.
    await db.run([ROLLBACK]).catch(() => {});
    throw error;
  }
}

/** Entries whose hashes one scan finds: of one kind, with one key and one lineage. */
function groupsOf(entries: readonly LedgerEntry[]): LedgerEntry[][] {
  const groups = new Map<string, LedgerEntry[]>();
  for (const entry of entries) {
    const group = [entry.lineage, entry.kind, entry.ledger.key].join('\0');
    groups.set(group, [...(groups.get(group) ?? []), entry]);
  }
  return [...groups.values()];
}

/** @param notApplied collects what could not be @returns how many rows were erased or changed */
async function reapplyGroup(
  db: Runner,
  home: Home,
  group: readonly LedgerEntry[],
  keys: ReadonlyMap<string, LedgerKey>,
  saved: Readonly<Record<string, SubjectKind>> | null,
  notApplied: string[],
): Promise<number> {
  const [first] = group;
  const key = first && keys.get(first.ledger.key);
  if (first === undefined || key === undefined) return 0;
  const { kind } = first;
  const ofBackup = saved?.[kind];
  const declarations = [
    ...group.map(({ ledger }) => ledger.declaration),
    ...(ofBackup === undefined ? [] : [ofBackup]),
  ];
  const { subjects, problems } = resolveKind(kind, union(declarations), await readSubjectCatalog(db, home));
  for (const { problem } of problems) if (!problem.startsWith('No column')) notApplied.push(problem);
  await db.run([SEE_EVERYTHING, fixed('SET LOCAL statement_timeout = 0')]);
  const values = await valuesIn(db, subjects, group, key);
  if ([...values.values()].every(({ size }) => size === 0)) return 0;
  // By the links as they were then, unless they lead to others who were not erased.
  const unbounded: Bounds = { maxRows: Number.MAX_SAFE_INTEGER - 1, subjects: Number.MAX_SAFE_INTEGER, joined: true };
  const linked = await findSubject(db, subjects, values, unbounded);
  const direct = await findSubject(db, subjects, values, { ...unbounded, followsLinks: false });
  const people = subjects.tables.filter(({ onePerSubject }) => onePerSubject);
  const leadsToOthers = people.some(({ shown }) => (linked.rows.get(shown) ?? 0) > (direct.rows.get(shown) ?? 0));
  if (leadsToOthers)
    notApplied.push(
      `Links that lead to others of ${kind} were not followed: only rows with an erased identifier are gone`,
    );
  const { result } = await eraseSubject(
    db,
    home,
    subjects,
    values,
    { ...unbounded, followsLinks: !leadsToOthers },
    () => Promise.resolve(),
  );
  return result.tables.reduce((sum, { deleted, changed }) => sum + deleted + changed, 0);
}

/** Every table of every declaration; a later one replaces an earlier one of the same table. */
const union = (declarations: readonly SubjectKind[]): SubjectKind => ({
  identifiers: Object.assign({}, ...declarations.map(({ identifiers }) => identifiers)) as SubjectKind['identifiers'],
  tables: Object.assign({}, ...declarations.map(({ tables }) => tables)) as SubjectKind['tables'],
});

/** One scan of each column, for all erasures together. */
async function valuesIn(
  db: Runner,
  { tables }: Subjects,
  group: readonly LedgerEntry[],
  { key }: LedgerKey,
): Promise<Values> {
  const values = new Map<string, Set<string>>();
  const [first] = group;
  if (first === undefined) return values;
  for (const table of tables) {
    for (const column of table.columns) {
      const { identifier } = column;
      const hashes = group.flatMap(({ ledger }) => ledger.hashes[identifier] ?? []);
      if (hashes.length === 0) continue;
      const own = sql`${keyOfIdentifier(key, first, identifier)}::pg_catalog.bytea`;
      const inner = sql`pg_catalog.sha256(${own} OPERATOR(pg_catalog.||) pg_catalog.convert_to(${normalizedColumn(column)}, 'UTF8'))`;
      const outer = sql`pg_catalog.sha256(${own} OPERATOR(pg_catalog.||) ${inner})`;
      const rows = await db.query(
        sql`SELECT DISTINCT ${normalizedColumn(column)} FROM ${tableName(table)}
          WHERE ${outer} OPERATOR(pg_catalog.=) ANY (${hashes.map((hash) => Buffer.from(hash, 'base64'))}::pg_catalog.bytea[])`,
      );
      const found = values.get(identifier) ?? new Set<string>();
      for (const [value] of rows) if (value != null && value !== '') found.add(value);
      values.set(identifier, found);
    }
  }
  return values;
}
