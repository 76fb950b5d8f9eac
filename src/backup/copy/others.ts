/**
 * What a project has in addition to tables and what pg_dump does not include in the schema: values of sequences, and
 * large objects.
 */
import { createHash } from 'node:crypto';
import type { Verification } from '../../contract/moves.js';
import { ident, type Session, sql } from '../../pg/index.js';
import type { Placement } from '../../tenancy/placement.js';
import { isOfProject } from '../../tenancy/project-rights.js';
import { largeObjects, partsOf } from './large-objects.js';

interface Sequence {
  readonly schema: string;
  readonly name: string;
  readonly value: string;
  readonly isCalled: boolean;
}

/** Snapshots do not apply to sequences. */
async function sequencesOf(session: Session, placement: Placement): Promise<Sequence[]> {
  const found = await session.query(
    sql`SELECT nspname, relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
        WHERE ${isOfProject(placement)} AND relkind = 'S' ORDER BY 1, 2`,
  );
  const sequences: Sequence[] = [];
  for (const [schema, name] of found as string[][]) {
    const [value, isCalled] = await session.row(
      sql`SELECT last_value, is_called FROM ${ident(schema ?? '', name ?? '')}`,
    );
    sequences.push({ schema: schema ?? '', name: name ?? '', value: value ?? '', isCalled: isCalled === 't' });
  }
  return sequences;
}

/** Sets every sequence to the current value of the source's. */
export async function copySequences(source: Session, target: Session, placement: Placement): Promise<void> {
  for (const { schema, name, value, isCalled } of await sequencesOf(source, placement)) {
    await target.query(sql`SELECT pg_catalog.setval(${ident(schema, name).text}, ${value}, ${isCalled})`);
  }
}

/**
 * What must be equal after a copy, by name.
 * @param verify full: includes the contents of large objects
 */
export async function othersOf(
  session: Session,
  placement: Placement,
  verify: Verification,
): Promise<Map<string, string>> {
  const others = new Map<string, string>();
  for (const { schema, name, value, isCalled } of await sequencesOf(session, placement)) {
    others.set(`${schema}.${name} (SEQUENCE)`, `${value} ${isCalled}`);
  }
  for (const { oid } of await largeObjects(session, placement)) {
    const hash = createHash('sha256');
    if (verify === 'full') for await (const { part } of partsOf(session, oid)) hash.update(part);
    others.set(`large object ${oid}`, hash.digest('hex'));
  }
  return others;
}

/** Names those that differ or are on one side only. */
export const differentOthers = (before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): string[] =>
  [...new Set([...before.keys(), ...after.keys()])]
    .filter((name) => before.get(name) !== after.get(name))
    .map((name) => `${name}: differs`);
