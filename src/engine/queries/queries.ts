/** The saved queries of a project: saving, listing and deleting them, and the values with which one runs. */
import { type JsonNode, memberOf } from '../../codec/index.js';
import type { AuditOrigin } from '../../contract/audit.js';
import type { ColumnType } from '../../contract/column-types.js';
import { didYouMean } from '../../contract/did-you-mean.js';
import { awaited, checkAll, ErrorCollector } from '../../contract/error-collector.js';
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { quoted } from '../../contract/message-text.js';
import type { Query, QueryBody, QueryParameter } from '../../contract/wire/queries.js';
import type { Project } from '../../db/project.js';
import type { ControlDatabase } from '../../tenancy/control/control.js';
import type { QueryRow } from '../../tenancy/control/query-rows.js';
import { type Audit, authorOf } from '../audit/audit.js';
import type { Splitter } from '../parser/splitter.js';
import { checkSavedName } from '../schedules/schedules.js';
import { checkSql } from '../sql/check-sql.js';

interface QueryServices {
  readonly control: ControlDatabase;
  readonly audit: Audit;
  readonly splitter: Splitter;
}

export class Queries {
  constructor(private readonly services: QueryServices) {}

  /** By name. @throws EngineError database_unavailable */
  async list({ id }: Project): Promise<Query[]> {
    return (await this.services.control.queries.list(id)).map(shownQuery);
  }

  /** @throws EngineError not_found */
  async find({ id }: Project, name: string): Promise<Query> {
    const row = await this.services.control.queries.find(id, name);
    if (row === null) throw unknown(name);
    return shownQuery(row);
  }

  /**
   * Makes or replaces a query.
   * @param mayWrite whether the caller may run any SQL; otherwise neither the new nor the old one may write
   * @throws EngineError invalid_name, invalid_request, sql_error, statement_not_allowed, insufficient_scope
   */
  async save(
    project: Project,
    name: string,
    body: QueryBody,
    { by, mayWrite, signal }: { by: AuditOrigin; mayWrite: boolean; signal: AbortSignal },
  ): Promise<Query> {
    const { control, audit, splitter } = this.services;
    const { sql, parameters = [], chart = null, description = null, writes = false } = body;
    if (writes && !mayWrite) throw needsWrite();
    const [, , , used] = checkAll(
      () => checkSavedName(name),
      () => checkParameters(parameters),
      () => checkChart(chart),
      await awaited(checkSql(splitter, project, sql, signal)),
    );
    checkParameterCount(parameters, used);
    const entry = audit.entryOfChange(by, { operation: 'save_query', object: name });
    const declaration = { sql, parameters, chart, description, writes };
    const options = { by: authorOf(by), most: LIMITS.queriesPerProject, mayWrite };
    const saved = await control.queries.save(project.id, name, declaration, options, entry);
    if (saved !== null) return shownQuery(saved);
    if (!mayWrite && (await control.queries.find(project.id, name))?.declaration.writes) throw needsWrite();
    const message = `The project has ${LIMITS.queriesPerProject} saved queries, which is the maximum`;
    throw new EngineError('invalid_request', message);
  }

  /** @param mayWrite as in {@link save} @throws EngineError not_found, insufficient_scope */
  async delete(project: Project, name: string, mayWrite: boolean, by: AuditOrigin): Promise<void> {
    const { control, audit } = this.services;
    const entry = audit.entryOfChange(by, { operation: 'delete_query', object: name });
    if (await control.queries.delete(project.id, name, mayWrite, entry)) return;
    throw (await control.queries.find(project.id, name)) === null ? unknown(name) : needsWrite();
  }
}

/**
 * The values of `$1`, `$2`, … in their order.
 * @param given an object with a value for each parameter; undefined: there is none
 * @throws EngineError invalid_request naming every parameter that is missing, unknown or of another type
 */
export function valuesOf({ parameters }: Query, given: JsonNode | undefined): JsonNode[] {
  const errors = new ErrorCollector();
  const wrong = (message: string, hint?: string) =>
    errors.add('invalid_request', () => ({ message, ...(hint === undefined ? {} : { hint }) }));
  const names = parameters.map(({ name }) => name);
  for (const [key] of given?.kind === 'object' ? given.members : []) {
    if (!names.includes(key)) wrong(`The query has no parameter ${quoted(key)}`, didYouMean(key, names));
  }
  const values = parameters.map(({ name, type }): JsonNode => {
    const value = memberOf(given, name);
    if (value === undefined) wrong(`The parameter "${name}" is missing`);
    else if (value.kind !== 'null' && !FITS[type](value)) wrong(`The parameter "${name}" must be ${IN_WORDS[type]}`);
    return value ?? { kind: 'null' };
  });
  errors.throwIfAny();
  return values;
}

const isString = ({ kind }: JsonNode) => kind === 'string';

const FITS: Readonly<Record<ColumnType, (value: JsonNode) => boolean>> = {
  TEXT: isString,
  INTEGER: (value) => value.kind === 'number' && /^-?\d+$/.test(value.text),
  FLOAT: ({ kind }) => kind === 'number',
  BOOLEAN: ({ kind }) => kind === 'boolean',
  TIMESTAMP: isString,
  JSONB: () => true,
};

const IN_WORDS: Readonly<Record<ColumnType, string>> = {
  TEXT: 'a string',
  INTEGER: 'a whole number',
  FLOAT: 'a number',
  BOOLEAN: 'true or false',
  TIMESTAMP: 'a time as a string',
  JSONB: 'any JSON',
};

/** @throws EngineError invalid_request */
function checkParameters(parameters: readonly QueryParameter[]): void {
  const twice = parameters.find(({ name }, i) => parameters.findIndex((one) => one.name === name) !== i);
  if (twice !== undefined) throw new EngineError('invalid_request', `Two parameters are called "${twice.name}"`);
}

/** @param used how many the SQL uses; null: it has several statements @throws EngineError invalid_request */
function checkParameterCount({ length }: readonly QueryParameter[], used: number | null): void {
  if (length === (used ?? 0)) return;
  const what =
    used === null
      ? 'Only a single statement can have parameters'
      : `The SQL uses ${used === 0 ? 'no parameter' : `the parameters up to $${used}`}`;
  const hint = '"parameters" names $1, $2 and so on, in this order.';
  throw new EngineError('invalid_request', `${what}, and "parameters" names ${length}`, { hint });
}

/** @throws EngineError invalid_request */
function checkChart(chart: object | null): void {
  const bytes = Buffer.byteLength(JSON.stringify(chart));
  if (bytes > LIMITS.chartBytes)
    throw new EngineError('invalid_request', `"chart" has ${bytes} bytes; at most ${LIMITS.chartBytes} are kept`);
}

const needsWrite = () =>
  new EngineError('insufficient_scope', 'The token lacks the scope sql:write, which saved queries that write need');

const unknown = (name: string) => new EngineError('not_found', `The project has no saved query ${quoted(name)}`);

const shownQuery = ({ name, declaration, ...row }: QueryRow): Query => ({
  name,
  ...declaration,
  parameters: [...declaration.parameters],
  created_at: row.createdAt.toISOString(),
  created_by: row.createdBy,
  updated_at: row.updatedAt.toISOString(),
  updated_by: row.updatedBy,
});
