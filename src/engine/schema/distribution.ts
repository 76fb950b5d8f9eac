/** Distributes the rows of a table over the workers of a Citus cluster, or makes it local again (docs/citus.md). */
import { EngineError } from '../../contract/errors.js';
import { counted, quoted } from '../../contract/message-text.js';
import { type Static, Type } from '../../contract/schema.js';
import { type DistributeBody, DISTRIBUTION_KINDS } from '../../contract/wire/distribution.js';
import { ident, literal, PostgresError, sql, SQLSTATE, type Statement } from '../../pg/index.js';
import { IN_PG_CATALOG } from '../../tenancy/connections/project-session.js';
import type { Table } from '../catalog/catalog.js';
import {
  type CurrentDistribution,
  currentDistribution,
  obstaclesOfHash,
  obstaclesOfKind,
  readCurrentDistribution,
} from '../catalog/distribution.js';
import type { Replayable } from '../../db/idempotency.js';
import type { Project } from '../../db/project.js';
import { planCommit } from '../../db/transaction.js';
import type { QueryRunner } from '../../db/query-runner.js';
import { commentsOf } from './column-properties.js';
import { lockForChange, requireColumns } from '../catalog/find-table.js';
import { type ChangeOptions, schemaChange } from './schema-change.js';

const Distributed = Type.Object({
  kind: Type.Enum(DISTRIBUTION_KINDS),
  column: Type.Nullable(Type.String()),
  primaryKey: Type.Array(Type.String()),
});
type Distributed = Static<typeof Distributed>;

/**
 * The change is one transaction, during which the table cannot be used.
 * @throws EngineError table_not_found, unknown_column, invalid_request; citus_limit, naming every obstacle; table_busy,
 * quota_exceeded
 */
export async function distributeTable(
  project: Project,
  tableName: string,
  body: DistributeBody,
  options: ChangeOptions,
): Promise<Replayable<Distributed>> {
  checkDistribution(project, body);
  return schemaChange(project, options, Distributed, 'grows', async (db) => {
    const table = await lockForChange(db, project.schema, tableName);
    if (!project.distributesTables) return planCommit<Distributed>({ kind: 'local', column: null, primaryKey: [] });
    return planCommit(await distribute(db, table, body));
  });
}

/** Checks that need no connection. @throws EngineError invalid_request */
export function checkDistribution(project: Project, { kind, column, colocate_with: other }: DistributeBody): void {
  if (kind === 'hash' && column === undefined) throw new EngineError('invalid_request', 'hash needs "column"');
  if (kind !== 'hash' && (column !== undefined || other !== undefined)) {
    throw new EngineError('invalid_request', `"column" and "colocate_with" are only for hash, not for ${kind}`);
  }
  if (kind === 'local' || project.distributesTables) return;
  throw new EngineError(
    'invalid_request',
    'This project is not on a Citus cluster, so its tables cannot be distributed',
    {
      hint: 'Ask the operator for a cluster (docs/citus.md).',
    },
  );
}

/** Runs in the current transaction, which has locked the table. @throws EngineError unknown_column, citus_limit */
export async function distribute(db: QueryRunner, table: Table, body: DistributeBody): Promise<Distributed> {
  const { schema, name } = table;
  const { kind, column = null, colocate_with: other = null } = body;
  if (column !== null) requireColumns(table, [column]);
  await db.run([IN_PG_CATALOG]);
  const current = readCurrentDistribution(await db.query(currentDistribution(schema, name)));
  const isUnchanged = kind === current.kind && column === current.column && other === null;
  if (isUnchanged) return { kind, column, primaryKey: [...current.primaryKey] };
  await refuseObstacles(db, table, body);
  const primaryKey = primaryKeyOf(current, column);
  try {
    await db.run([
      ...(current.kind === 'local' ? [] : [call('undistribute_table', table), ...commentsOf(table)]),
      ...replacePrimaryKey(table, current, primaryKey),
      ...spread(table, body),
    ]);
  } catch (error) {
    throw asLimit(error, name);
  }
  return { kind, column, primaryKey };
}

const nameLiteral = ({ schema, name }: Pick<Table, 'schema' | 'name'>) => literal(ident(schema, name).text);
const call = (routine: string, table: Table): Statement => sql`SELECT ${ident(routine)}(${nameLiteral(table)})`;

function spread(table: Table, { kind, column = '', colocate_with: other }: DistributeBody): Statement[] {
  if (kind === 'local') return [];
  // The original rows have been copied, and would stay on the coordinator's disk.
  const clear = call('truncate_local_data_after_distributing_table', table);
  if (kind === 'reference') return [call('create_reference_table', table), clear];
  const group = other === undefined ? literal('default') : nameLiteral({ schema: table.schema, name: other });
  const create = sql`SELECT create_distributed_table(${nameLiteral(table)}, ${literal(column)}, colocate_with => ${group})`;
  return [create, clear];
}

/** A key of `id` alone is extended by the column, since Citus can find equal values only on one worker. */
function primaryKeyOf({ primaryKey }: CurrentDistribution, column: string | null): string[] {
  const isOnlyId = primaryKey.length === 1 && primaryKey[0] === 'id';
  return isOnlyId && column !== null && column !== 'id' ? ['id', column] : [...primaryKey];
}

function replacePrimaryKey(
  { schema, name }: Table,
  current: CurrentDistribution,
  columns: readonly string[],
): Statement[] {
  if (current.primaryKeyName === null || columns.length === current.primaryKey.length) return [];
  const [table, key] = [ident(schema, name), ident(current.primaryKeyName)];
  const [id, column] = columns.map((one) => ident(one));
  return [
    sql`ALTER TABLE ${table} DROP CONSTRAINT ${key}`,
    sql`ALTER TABLE ${table} ADD CONSTRAINT ${key} PRIMARY KEY (${id ?? ident('id')}, ${column ?? ident('id')})`,
  ];
}

/** @throws EngineError citus_limit */
async function refuseObstacles(db: QueryRunner, table: Table, body: DistributeBody): Promise<void> {
  const { schema, name } = table;
  const { kind, column = '', colocate_with: other = null } = body;
  const rows = await db.query(obstaclesOfKind(schema, name, kind));
  if (kind === 'hash') {
    rows.push(...(await db.query(obstaclesOfHash(schema, name, column, other))));
    const nulls = sql`SELECT count(*) FROM ${ident(schema, name)} WHERE ${ident(column)} IS NULL`;
    const count = Number((await db.query(nulls))[0]?.[0]);
    if (count > 0) rows.push([`${counted(count, 'row')} with NULL in the column`]);
  }
  if (rows.length === 0) return;
  const what = kind === 'hash' ? `hash by ${quoted(column)}` : kind;
  const errors = rows.map(([obstacle]) => ({ error: 'citus_limit' as const, message: obstacle ?? '' }));
  const list = errors.map(({ message }) => message).join('; ');
  throw new EngineError('citus_limit', `Table ${quoted(name)} cannot be ${what}: ${list}`, { errors });
}

/** Turns a refusal by Citus that the checks did not foresee into citus_limit. */
function asLimit(error: unknown, tableName: string): unknown {
  if (!(error instanceof PostgresError && UNSUPPORTED.has(error.sqlstate))) return error;
  const { detail, hint } = error.fields;
  const message = `Table ${quoted(tableName)}: ${[error.message, detail].filter(Boolean).join('. ')}`;
  return new EngineError('citus_limit', message, { cause: error, hint });
}

/** 42P16: invalid_table_definition. */
const UNSUPPORTED = new Set([SQLSTATE.FEATURE_NOT_SUPPORTED, SQLSTATE.INTERNAL_ERROR, '42P16']);
