/**
 * The states of a move and the transitions between them, stored in the table `cdp.moves` of the control database, so
 * that any move can be settled after a crash. `move.ts` carries them out.
 */
import { CANCELABLE_STATES, type MoveMode, type MoveState } from '../contract/moves.js';
import { serverName } from '../contract/servers.js';
import { BEGIN, COMMIT, type Fragment, type Row, sql, trusted } from '../pg/index.js';
import { type AuditRow, withEntry } from '../tenancy/control/audit-rows.js';
import type { ControlPool } from '../tenancy/control/control-pool.js';
import { addedServerJson, withDates } from '../tenancy/control/control-rows.js';
import { ACCEPTS_PROJECT } from '../tenancy/control/server-rows.js';
import type { Placement } from '../tenancy/placement.js';

/**
 * The states from which a move may enter each state. One statement makes a transition and checks the state before it:
 * if another process has begun to undo the move, the statement changes nothing.
 *
 * | State       | What happens in it                                                | What undoing takes back        |
 * | ----------- | ----------------------------------------------------------------- | ------------------------------ |
 * | `preparing` | The source's schema is brought up to date, the target is created. | the target                     |
 * | `streaming` | Rows and later changes are copied while clients write.            | the publication, the slot      |
 * | `fencing`   | Writes end: instances refuse them, then the source does.          | the fence for writes           |
 * | `copying`   | The rows, or the last changes, are copied and compared.           | the role that reads the source |
 * | `verifying` | Reads of the source end.                                          | the fence for reads            |
 * | `switched`  | The project lives on the target. The source is dropped.           | cannot be undone               |
 * | `done`      | Nothing of the project is left on the source.                     |                                |
 * | `undoing`   | The project stays on the source. All of the above is taken back.  |                                |
 * | `undone`    | Nothing of the move is left.                                      |                                |
 *
 * Until `switched` the process that holds the project's lock makes the transitions. The same process begins to undo a
 * move that fails, any instance one that a user cancels (`Moves.cancel`), and whoever holds the lock next one whose
 * process has ended (`Moves.recover`). `settle` of `move.ts` makes `done` and `undone`.
 */
const ENTERED_FROM = {
  streaming: ['preparing'],
  fencing: ['preparing', 'streaming'],
  copying: ['fencing'],
  verifying: ['copying'],
  switched: ['verifying'],
  done: ['switched'],
  undoing: [...CANCELABLE_STATES, 'undoing'],
  undone: ['undoing'],
} as const satisfies Partial<Record<MoveState, readonly MoveState[]>>;

const mayEnter = (state: keyof typeof ENTERED_FROM): Fragment => sql`state = ANY (${[...ENTERED_FROM[state]]})`;

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
   * @throws EngineError outcome_unknown: if it is stored, it will be undone; database_unavailable
   */
  async insert({ id, projectId, source, target, mode }: NewMove): Promise<'moving' | 'server' | null> {
    const server = serverName(target);
    const results = await this.pool.transaction([
      BEGIN,
      sql`SELECT FROM cdp.servers WHERE name = ${server} FOR UPDATE`,
      sql`SELECT FROM cdp.servers WHERE name = ${server} AND status = 'active' AND ${ACCEPTS_PROJECT}`,
      sql`INSERT INTO cdp.moves (id, project_id, state, from_server, to_server, source, target, mode)
          SELECT ${id}, ${projectId}, 'preparing', ${serverName(source)}, ${server}, ${placementJson(source)}::jsonb, ${placementJson(target)}::jsonb, ${mode}
          WHERE EXISTS (SELECT FROM cdp.servers WHERE name = ${server} AND status = 'active' AND ${ACCEPTS_PROJECT})
          ON CONFLICT DO NOTHING RETURNING id`,
      COMMIT,
    ]);
    if (results[3]?.rows.length === 1) return null;
    return results[2]?.rows.length === 1 ? 'moving' : 'server';
  }

  /** Moves that have not ended. @param projectId only of this project */
  listOpen(projectId?: string): Promise<MoveRow[]> {
    const ofProject = projectId === undefined ? sql`` : sql`AND project_id = ${projectId}`;
    return this.select(sql`WHERE ended_at IS NULL ${ofProject} ORDER BY started_at`);
  }

  /** Recent moves, the newest first. @param projectName only of the project of this name */
  latest(projectName?: string): Promise<MoveRow[]> {
    const ofProject = projectName === undefined ? sql`` : sql`WHERE projects.name = ${projectName}`;
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

  /** @returns false if its state is another: it was canceled, or another process has begun to undo it */
  async advance(id: string, to: 'streaming' | 'copying' | 'verifying'): Promise<boolean> {
    return this.changes(
      sql`UPDATE cdp.moves SET state = ${to} WHERE id = ${id} AND ${mayEnter(to)} RETURNING project_id`,
    );
  }

  /** Advances to `fencing`; instances refuse writes to the project within a second. */
  async fence(id: string): Promise<boolean> {
    return this.changes(sql`WITH moved AS (
        UPDATE cdp.moves SET state = 'fencing', fenced_at = clock_timestamp() WHERE id = ${id} AND ${mayEnter('fencing')} RETURNING project_id)
      UPDATE cdp.projects SET is_fenced = true FROM moved WHERE projects.id = project_id RETURNING project_id`);
  }

  /** Stores why it is copied after all. @returns false if it is being undone */
  async fallBack(id: string, why: string): Promise<boolean> {
    return this.changes(
      sql`UPDATE cdp.moves SET fallback = ${why} WHERE id = ${id} AND state IN ('streaming', 'copying') RETURNING project_id`,
    );
  }

  /** Stores the progress. @returns false if the move is being undone, for example because it was canceled */
  async note(id: string, { rows, bytes }: Pick<MoveRow, 'rows' | 'bytes'>): Promise<boolean> {
    return this.changes(
      sql`UPDATE cdp.moves SET rows = ${rows}, bytes = ${bytes} WHERE id = ${id} AND state = ANY (${CANCELABLE_STATES}) RETURNING project_id`,
    );
  }

  /**
   * Changes the project's place, in one transaction, if it still lives where the move began.
   * @throws EngineError outcome_unknown: the row says whether it has; database_unavailable
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
    const results = await this.pool.transaction([
      BEGIN,
      sql`UPDATE cdp.moves SET state = 'switched', opened_at = clock_timestamp() WHERE id = ${id} AND ${mayEnter('switched')}
          AND EXISTS (SELECT FROM cdp.projects WHERE projects.id = ${projectId}
            AND server = ${source.server} AND database_name = ${source.database})`,
      withEntry(change, entry),
      COMMIT,
    ]);
    return results[2]?.rows.length === 1;
  }

  /**
   * Whether the project lives on the target, whatever happens to the control database: this change follows the switch,
   * so that a standby that confirms it has both.
   * @throws EngineError outcome_unknown, also if no standby has confirmed it; database_unavailable
   */
  async confirmSwitch(id: string): Promise<boolean> {
    return this.changes(
      sql`UPDATE cdp.moves SET state = state WHERE id = ${id} AND state = 'switched' RETURNING project_id`,
    );
  }

  /**
   * Begins to undo it: from here on it cannot switch. The first reason is kept.
   * @returns false if the project has changed its place, or the move has ended
   */
  async beginUndo(id: string, reason: string): Promise<boolean> {
    return this.changes(sql`UPDATE cdp.moves SET state = 'undoing', reason = coalesce(reason, ${reason})
      WHERE id = ${id} AND ${mayEnter('undoing')} RETURNING project_id`);
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
  async end(id: string, to: 'done' | 'undone'): Promise<void> {
    await this.changes(sql`UPDATE cdp.moves SET state = ${to}, ended_at = coalesce(ended_at, now()),
        reason = CASE WHEN state <> 'switched' THEN reason END
      WHERE id = ${id} AND ${mayEnter(to)} RETURNING project_id`);
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

function placementJson({ server, database, schema, writer, reader, ownSchemas }: Placement): string {
  return JSON.stringify({ server, database, schema, writer, reader, ownSchemas });
}

/**
 * It was canceled, or another instance undoes it, because this process had lost the project's lock for a while. The
 * reason is stored.
 */
export const beingUndone = (): Error => new Error('The move is being undone');
