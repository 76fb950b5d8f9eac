/**
 * The table `cdp.moves` of the control database: the state of each move of a project, so that any move can be settled
 * after a crash.
 */
import { CANCELABLE_STATES, type MoveMode, type MoveState } from '../../contract/moves.js';
import { BEGIN, COMMIT, type Fragment, type Row, sql, trusted } from '../../pg/index.js';
import { type AuditRow, withEntry } from './audit-log.js';
import type { ControlPool } from './control-pool.js';
import { serverName } from '../../contract/servers.js';
import { addedServerJson, withDates } from './control-rows.js';
import type { Placement } from '../placement.js';
import { HAS_ROOM } from './server-rows.js';

export interface MoveRow {
  id: string;
  projectId: string;
  /** The project's name. */
  project: string;
  state: MoveState;
  /** The names of the servers, which may have been removed since. */
  from: string;
  to: string;
  source: Placement;
  target: Placement;
  /** Copied so far. */
  rows: number;
  bytes: number;
  /** The requested mode. */
  mode: MoveMode;
  /** Why it was copied although the mode is `stream`, and about how long that takes; null: it was not. */
  fallback: string | null;
  /** Why it was undone, or after the switch, why it cannot be finished; null: neither. */
  reason: string | null;
  startedAt: Date;
  /** How long writes were refused, in milliseconds; null: not yet, or still refused. */
  pauseMs: number | null;
  /** null: the move has not ended, or needs cleanup. */
  endedAt: Date | null;
}

export type NewMove = Pick<MoveRow, 'id' | 'projectId' | 'source' | 'target' | 'mode'>;

/** A stored placement as the JSON of a {@link Placement}. */
const placement = (column: 'source' | 'target') =>
  `${column} || jsonb_build_object('added', ${addedServerJson(`${column} ->> 'server'`)})`;

const MOVE_JSON = trusted(`jsonb_build_object('id', moves.id, 'projectId', project_id, 'project', projects.name,
  'state', state, 'from', from_server, 'to', to_server, 'source', ${placement('source')}, 'target', ${placement('target')},
  'rows', rows, 'bytes', bytes, 'mode', mode, 'fallback', fallback, 'reason', reason, 'startedAt', started_at,
  'pauseMs', round(extract(epoch FROM opened_at - fenced_at) * 1000), 'endedAt', ended_at)`);

const moveRow = ([json]: Row): MoveRow => JSON.parse(json ?? '', withDates) as MoveRow;

export class MoveRows {
  constructor(private readonly pool: ControlPool) {}

  /**
   * Stores a new move, which from now on counts as a project on the target's server.
   * @returns null if it is stored; otherwise the obstacle: `moving` for another move of the project, or `server`
   */
  async insert({ id, projectId, source, target, mode }: NewMove): Promise<'moving' | 'server' | null> {
    const server = serverName(target);
    const results = await this.pool.run([
      BEGIN,
      sql`SELECT FROM cdp.servers WHERE name = ${server} FOR UPDATE`,
      sql`SELECT FROM cdp.servers WHERE name = ${server} AND status = 'active' AND ${HAS_ROOM}`,
      sql`INSERT INTO cdp.moves (id, project_id, state, from_server, to_server, source, target, mode)
          SELECT ${id}, ${projectId}, 'preparing', ${serverName(source)}, ${server}, ${stored(source)}::jsonb, ${stored(target)}::jsonb, ${mode}
          WHERE EXISTS (SELECT FROM cdp.servers WHERE name = ${server} AND status = 'active' AND ${HAS_ROOM})
          ON CONFLICT DO NOTHING RETURNING id`,
      COMMIT,
    ]);
    if (results[3]?.rows.length === 1) return null;
    return results[2]?.rows.length === 1 ? 'moving' : 'server';
  }

  /** Moves that have not ended. @param projectId only of this project */
  open(projectId?: string): Promise<MoveRow[]> {
    const ofProject = projectId === undefined ? sql`` : sql`AND project_id = ${projectId}`;
    return this.select(sql`WHERE ended_at IS NULL ${ofProject} ORDER BY started_at`);
  }

  /** Recent moves, the newest first. @param project only of the project of this name */
  latest(project?: string): Promise<MoveRow[]> {
    const ofProject = project === undefined ? sql`` : sql`WHERE projects.name = ${project}`;
    return this.select(sql`${ofProject} ORDER BY started_at DESC LIMIT ${trusted(String(LISTED))}`);
  }

  async get(id: string): Promise<MoveRow | null> {
    const [move] = await this.select(sql`WHERE moves.id = ${id}`);
    return move ?? null;
  }

  async isAt(id: string, state: MoveState): Promise<boolean> {
    const rows = await this.pool.query(
      sql`SELECT FROM cdp.moves WHERE id = ${id} AND state = ${state} AND ended_at IS NULL`,
    );
    return rows.length === 1;
  }

  /** Whether a project lives there and has no open move. */
  async isAtRest({ server, database }: Placement): Promise<boolean> {
    const rows = await this.pool
      .query(sql`SELECT FROM cdp.projects WHERE server = ${server} AND database_name = ${database} AND NOT is_fenced
        AND NOT EXISTS (SELECT FROM cdp.moves WHERE project_id = projects.id AND ended_at IS NULL)`);
    return rows.length === 1;
  }

  /** @returns false if its state is not `from`: another process has begun to undo it */
  async advance(id: string, from: MoveState, to: MoveState): Promise<boolean> {
    return this.changes(
      sql`UPDATE cdp.moves SET state = ${to} WHERE id = ${id} AND state = ${from} RETURNING project_id`,
    );
  }

  /** Advances to `fencing`; instances refuse writes to the project within a second. */
  async fence(id: string): Promise<boolean> {
    return this.changes(sql`WITH moved AS (
        UPDATE cdp.moves SET state = 'fencing', fenced_at = clock_timestamp() WHERE id = ${id} AND state IN ('preparing', 'streaming') RETURNING project_id)
      UPDATE cdp.projects SET is_fenced = true FROM moved WHERE projects.id = project_id RETURNING project_id`);
  }

  /** Stores why it is copied after all. @returns false if another process undoes it */
  async fallBack(id: string, why: string): Promise<boolean> {
    return this.changes(
      sql`UPDATE cdp.moves SET fallback = ${why} WHERE id = ${id} AND state IN ('streaming', 'copying') RETURNING project_id`,
    );
  }

  /** Stores the progress. @returns whether to go on */
  async note(id: string, { rows, bytes }: Pick<MoveRow, 'rows' | 'bytes'>): Promise<boolean> {
    const [isCanceled] = await this.pool.row(
      sql`UPDATE cdp.moves SET rows = ${rows}, bytes = ${bytes} WHERE id = ${id} AND state = ANY (${CANCELABLE_STATES}) RETURNING is_canceled`,
    );
    return isCanceled === 'f';
  }

  /**
   * Changes the project's place, in one transaction, if it still lives where the move began.
   * @throws EngineError database_unavailable: the row says whether it has
   */
  async switch(
    { id, projectId, source, target }: NewMove,
    schemaVersion: number,
    entry: AuditRow | null,
  ): Promise<boolean> {
    const place = sql`server = ${target.server}, database_name = ${target.database}, schema_name = ${target.schema},
      writer_role = ${target.writer}, reader_role = ${target.reader}, own_schemas = own_schemas AND ${target.ownSchemas}`;
    const change = sql`UPDATE cdp.projects SET ${place}, schema_version = ${schemaVersion}, size_bytes = NULL, is_fenced = false
      WHERE id = ${projectId} AND EXISTS (SELECT FROM cdp.moves WHERE moves.id = ${id} AND state = 'switched')
      RETURNING id AS project_id`;
    const results = await this.pool.run([
      BEGIN,
      sql`UPDATE cdp.moves SET state = 'switched', opened_at = clock_timestamp() WHERE id = ${id} AND state = 'verifying'
          AND EXISTS (SELECT FROM cdp.projects WHERE projects.id = ${projectId}
            AND server = ${source.server} AND database_name = ${source.database})`,
      withEntry(change, entry),
      COMMIT,
    ]);
    return results[2]?.rows.length === 1;
  }

  /** Begins to undo it. @returns false if the project has changed its place */
  async undo(id: string, reason: string): Promise<boolean> {
    return this.changes(sql`UPDATE cdp.moves SET state = 'undoing', reason = coalesce(reason, ${reason})
      WHERE id = ${id} AND state = ANY (${[...CANCELABLE_STATES, 'undoing']}) RETURNING project_id`);
  }

  /** Lets the project accept writes again where it was. */
  async unfence(id: string): Promise<void> {
    await this.changes(sql`WITH moved AS (
        UPDATE cdp.moves SET opened_at = CASE WHEN fenced_at IS NOT NULL THEN coalesce(opened_at, clock_timestamp()) END
        WHERE id = ${id} AND state = 'undoing' RETURNING project_id)
      UPDATE cdp.projects SET is_fenced = false FROM moved WHERE projects.id = project_id RETURNING project_id`);
  }

  /** Stores why nothing more can be done now, unless a reason for the undo is stored. */
  async noteFailure(id: string, reason: string): Promise<void> {
    await this.changes(sql`UPDATE cdp.moves SET reason = ${reason}
      WHERE id = ${id} AND state = 'switched' AND reason IS DISTINCT FROM ${reason} RETURNING project_id`);
  }

  /** Open moves by state. */
  async countOpen(): Promise<Map<MoveState, number>> {
    const rows = await this.pool.query(
      sql`SELECT state, count(*) FROM cdp.moves WHERE ended_at IS NULL GROUP BY state`,
    );
    return new Map(rows.map(([state, count]) => [state as MoveState, Number(count)]));
  }

  /** Ends a move that has nothing left to do. */
  async end(id: string, from: MoveState, to: MoveState): Promise<void> {
    await this.changes(sql`UPDATE cdp.moves SET state = ${to}, ended_at = coalesce(ended_at, now()),
        reason = CASE WHEN state <> 'switched' THEN reason END
      WHERE id = ${id} AND state = ${from} RETURNING project_id`);
  }

  /** @returns false if it has ended, or the project has changed its place */
  async cancel(id: string): Promise<boolean> {
    return this.changes(
      sql`UPDATE cdp.moves SET is_canceled = true WHERE id = ${id} AND state = ANY (${CANCELABLE_STATES}) RETURNING project_id`,
    );
  }

  private async changes(change: Fragment): Promise<boolean> {
    return (await this.pool.change(change, null)).length === 1;
  }

  private async select(which: Fragment): Promise<MoveRow[]> {
    const rows = await this.pool.query(
      sql`SELECT ${MOVE_JSON} FROM cdp.moves JOIN cdp.projects ON projects.id = moves.project_id ${which}`,
    );
    return rows.map(moveRow);
  }
}

/** Maximum number of moves that are listed. */
const LISTED = 100;

function stored({ server, database, schema, writer, reader, ownSchemas }: Placement): string {
  return JSON.stringify({ server, database, schema, writer, reader, ownSchemas });
}
