/** The segments of a project: schedules whose result is kept as members. */
import type { AuditOrigin } from '../../contract/audit.js';
import { EngineError } from '../../contract/errors.js';
import { tokensOf } from '../../contract/sql-tokens.js';
import type { Segment, SegmentBody } from '../../contract/wire/segments.js';
import type { Project } from '../../db/project.js';
import type { Declaration, ScheduleRow } from '../../tenancy/control/schedule-rows.js';
import { mainKeyword } from '../parser/keywords.js';
import { declarationOf, Schedules, type ScheduleServices, shownSchedule } from '../schedules/schedules.js';
import { checkSql } from '../sql/check-sql.js';
import { countSql } from '../sql/count-sql.js';
import { parsingRequestOf, type SqlServices } from '../sql/run-sql.js';
import { withoutMembers } from './segment-sql.js';

export class Segments extends Schedules {
  constructor(services: ScheduleServices) {
    super(services, 'segment');
  }

  /** @throws EngineError those of `checkSql`; invalid_request unless it is one query with a column `key` */
  protected override async checkedSql(project: Project, text: string, signal: AbortSignal): Promise<string> {
    const { splitter } = this.services;
    const [query, ...others] = await splitter.split(text, parsingRequestOf(project, signal));
    if (query === undefined || others.length > 0 || mainKeyword(query.text) !== 'SELECT') throw noKey();
    const sql = await super.checkedSql(project, upToSemicolon(query.text), signal);
    await checkSql(splitter, project, keysOf(sql), signal).catch((error: unknown) => {
      throw error instanceof EngineError && error.code === 'sql_error' ? noKey(error) : error;
    });
    return sql;
  }

  /**
   * Deletes a segment and its members; its changes stay.
   * @throws EngineError not_found; those of free SQL
   */
  async drop(
    services: SqlServices,
    project: Project,
    name: string,
    { by, signal, timeoutMs }: { by: AuditOrigin; signal: AbortSignal; timeoutMs: number },
  ): Promise<void> {
    await this.find(project, name);
    const sql = withoutMembers(project.schema, name);
    await countSql(services, project, { sql, params: [], readOnly: false, timeoutMs, signal });
    await this.delete(project, name, by);
  }
}

/** What Postgres refuses unless the query yields keys. */
const keysOf = (sql: string): string => `SELECT key FROM (\n${sql}\n) AS result`;

const noKey = (why?: EngineError) =>
  new EngineError('invalid_request', '"sql" must be one query with a column "key"', { hint: why?.message });

/** A statement that can stand in another one. */
function upToSemicolon(text: string): string {
  for (const { kind, from } of tokensOf(text)) if (kind === 'sign' && text[from] === ';') return text.slice(0, from);
  return text;
}

export const segmentDeclarationOf = ({ max_change: maxChange = null, ...body }: SegmentBody): Declaration => ({
  ...declarationOf(body),
  maxChange,
});

export function shownSegment(row: ScheduleRow): Segment {
  const { role: _, ...schedule } = shownSchedule(row);
  return { ...schedule, max_change: row.declaration.maxChange ?? null };
}
