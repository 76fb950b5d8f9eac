/** What the control database knows of people in projects: declarations, erasures with their ledger, and keys. The rules are in `engine/subjects`. */
import type { ErasureState } from '../../contract/subjects.js';
import type { Declaration, ErasureOutcome, SubjectKind, Upkeep } from '../../contract/wire/subjects.js';
import { type Fragment, sql } from '../../pg/index.js';
import type { AuditRow } from './audit-rows.js';
import type { ControlPool } from './control-pool.js';

/** What an erasure leaves, so that it can be repeated in a restored database. */
export interface Ledger {
  /** The id of the key under which the hashes were made. */
  readonly key: string;
  readonly declaration: SubjectKind;
  /** By identifier, base64. */
  readonly hashes: Readonly<Record<string, readonly string[]>>;
}

export interface Commitment {
  readonly identifier: string;
  readonly normalization: string;
  readonly hmac: string;
}

export interface ErasureRow {
  readonly id: string;
  /** Of the project's data: a restored project has that of its backup. */
  readonly lineage: string;
  readonly projectId: string;
  readonly project: string;
  /** Where it lived. */
  readonly server: string;
  readonly kind: string;
  readonly deep: boolean;
  readonly state: ErasureState;
  readonly ledger: Ledger | null;
  readonly commitments: readonly Commitment[];
  readonly result: { readonly erased: ErasureOutcome; readonly upkeep: Upkeep | null } | null;
  readonly receipt: string | null;
  readonly error: string | null;
  readonly createdAt: Date;
  readonly erasedAt: Date | null;
  readonly endedAt: Date | null;
}

/** An erasure in the ledger, also as a file of a backup folder. */
export type LedgerEntry = Pick<ErasureRow, 'id' | 'lineage' | 'projectId' | 'project' | 'server' | 'kind'> & {
  readonly ledger: Ledger;
  readonly erasedAt: Date | null;
};

export type KeyPurpose = 'ledger' | 'receipts';

export interface KeyRow {
  readonly id: string;
  readonly purpose: KeyPurpose;
  /** Base64. */
  readonly wrapped: string;
  /** A JWK; null: it is a secret. */
  readonly publicKey: Readonly<Record<string, unknown>> | null;
}

const ERASURE_JSON = sql`jsonb_build_object('id', id, 'lineage', lineage, 'projectId', project_id, 'project', project,
  'server', server, 'kind', kind, 'deep', deep, 'state', state, 'ledger', ledger, 'commitments', commitments, 'result', result,
  'receipt', receipt, 'error', error, 'createdAt', created_at, 'erasedAt', erased_at, 'endedAt', ended_at)`;

/** Its times become Dates; columns of a declaration may have any name. */
function erasureRow(json: string): ErasureRow {
  type Times = 'createdAt' | 'erasedAt' | 'endedAt';
  const stored = JSON.parse(json) as Omit<ErasureRow, Times> & Record<Times, string | null>;
  const time = (text: string | null) => (text === null ? null : new Date(text));
  const { createdAt, erasedAt, endedAt } = stored;
  return { ...stored, createdAt: new Date(createdAt ?? 0), erasedAt: time(erasedAt), endedAt: time(endedAt) };
}

const KEY_JSON = sql`jsonb_build_object('id', id, 'purpose', purpose, 'wrapped', encode(wrapped, 'base64'), 'publicKey', public_key)`;

export class SubjectRows {
  constructor(private readonly pool: ControlPool) {}

  async declaration(projectId: string): Promise<{ declaration: Declaration; declaredAt: Date } | null> {
    const [json] = await this.pool.row(
      sql`SELECT json_build_object('declaration', declaration, 'declaredAt', declared_at) FROM cdp.subjects WHERE project_id = ${projectId}`,
    );
    if (json == null) return null;
    const { declaration, declaredAt } = JSON.parse(json) as { declaration: Declaration; declaredAt: string };
    return { declaration, declaredAt: new Date(declaredAt) };
  }

  /** @returns false if the project is not ready, or no longer there */
  async declare(projectId: string, declaration: Declaration, entry: AuditRow | null): Promise<boolean> {
    const rows = await this.pool.change(
      sql`INSERT INTO cdp.subjects (project_id, declaration)
          SELECT id, ${JSON.stringify(declaration)}::json FROM cdp.projects
          WHERE id = ${projectId} AND status IN ('active', 'inactive')
          ON CONFLICT (project_id) DO UPDATE SET declaration = excluded.declaration, declared_at = now()
          RETURNING project_id`,
      entry,
    );
    return rows.length === 1;
  }

  /** The lineage of a project; its own id unless it was restored. */
  async lineageOf(projectId: string): Promise<string> {
    const [lineage] = await this.pool.row(sql`SELECT coalesce(lineage, id) FROM cdp.projects WHERE id = ${projectId}`);
    return lineage ?? projectId;
  }

  /** For a project that is being restored. @param lineage null: it is a copy, which goes its own way */
  async adopt(projectId: string, lineage: string | null, declaration: Declaration | null): Promise<void> {
    await this.pool.query(sql`UPDATE cdp.projects SET lineage = ${lineage} WHERE id = ${projectId}`);
    if (declaration !== null)
      await this.pool.query(
        sql`INSERT INTO cdp.subjects (project_id, declaration) VALUES (${projectId}, ${JSON.stringify(declaration)}::json)
            ON CONFLICT DO NOTHING`,
      );
  }

  async addErasure(
    row: Pick<ErasureRow, 'id' | 'lineage' | 'projectId' | 'project' | 'server' | 'kind' | 'deep' | 'commitments'>,
    sealed: Buffer,
    actor: string,
  ): Promise<void> {
    await this.pool.query(
      sql`INSERT INTO cdp.erasures (id, lineage, project_id, project, server, kind, deep, state, sealed, commitments, actor)
          VALUES (${row.id}, ${row.lineage}, ${row.projectId}, ${row.project}, ${row.server}, ${row.kind}, ${row.deep}, 'running',
            ${sealed}::bytea, ${JSON.stringify(row.commitments)}::jsonb, ${actor})`,
    );
  }

  /** What an erasure that has not ended looks for, sealed. */
  async sealed(id: string): Promise<Buffer | null> {
    const [hex] = await this.pool.row(sql`SELECT encode(sealed, 'hex') FROM cdp.erasures WHERE id = ${id}`);
    return hex == null ? null : Buffer.from(hex, 'hex');
  }

  /** Before the commit in the project's database. */
  async setLedger(id: string, ledger: Ledger): Promise<void> {
    await this.pool.query(sql`UPDATE cdp.erasures SET ledger = ${JSON.stringify(ledger)}::jsonb WHERE id = ${id}`);
  }

  /** The person is erased; what was sealed stays for the second look. */
  async setErased(id: string, erasedAt: string, result: ErasureOutcome, receipt: string): Promise<void> {
    await this.pool.query(
      sql`UPDATE cdp.erasures SET state = 'cleaning', erased_at = ${erasedAt}::timestamptz, receipt = ${receipt}, error = NULL,
            result = ${JSON.stringify({ erased: result, upkeep: null })}::jsonb WHERE id = ${id} AND state = 'running'`,
    );
  }

  async setDone(id: string, upkeep: Upkeep): Promise<void> {
    await this.pool.query(
      sql`UPDATE cdp.erasures SET state = 'done', sealed = NULL, ended_at = now(), error = NULL,
            result = result || ${JSON.stringify({ upkeep })}::jsonb WHERE id = ${id} AND state = 'cleaning'`,
    );
  }

  /** Nothing was erased, and nothing will be. */
  async setFailed(id: string, error: string): Promise<void> {
    await this.pool.query(
      sql`UPDATE cdp.erasures SET state = 'failed', sealed = NULL, ledger = NULL, ended_at = now(), error = ${error}
          WHERE id = ${id} AND state = 'running'`,
    );
  }

  /** It will be tried again. */
  async noteError(id: string, error: string): Promise<void> {
    await this.pool.query(sql`UPDATE cdp.erasures SET error = ${error} WHERE id = ${id}`);
  }

  async erasure(projectId: string, id: string): Promise<ErasureRow | null> {
    const [row] = await this.select(sql`WHERE id = ${id} AND project_id = ${projectId}`);
    return row ?? null;
  }

  /** The newest first. */
  erasures(projectId: string, limit: number): Promise<ErasureRow[]> {
    return this.select(sql`WHERE project_id = ${projectId} ORDER BY created_at DESC LIMIT ${limit}`);
  }

  /** Those that have not ended, oldest first: these, and those of at least this age. */
  unended(ids: readonly string[], seconds: number): Promise<ErasureRow[]> {
    return this.select(
      sql`WHERE ended_at IS NULL AND (id = ANY (${ids}::uuid[]) OR created_at < now() - make_interval(secs => ${seconds}))
        ORDER BY created_at LIMIT 100`,
    );
  }

  /**
   * The ledger of a project's data.
   * @param origin lineage null: the backup is of an earlier version, and its name and server decide
   */
  async ledger(origin: {
    readonly lineage: string | null;
    readonly name: string;
    readonly server: string | null;
  }): Promise<LedgerEntry[]> {
    const { lineage, name, server } = origin;
    const which = lineage === null ? sql`(project = ${name} OR server = ${server})` : sql`lineage = ${lineage}`;
    return (await this.select(sql`WHERE ledger IS NOT NULL AND ${which} ORDER BY created_at`)) as LedgerEntry[];
  }

  /** Whether the project of a backup lives here, or its erasures are known. */
  async knows({ lineage, name }: { readonly lineage: string | null; readonly name: string }): Promise<boolean> {
    const rows = await this.pool.query(
      sql`SELECT FROM cdp.projects WHERE status IN ('active', 'inactive') AND (coalesce(lineage, id) = ${lineage} OR ${lineage === null} AND name = ${name})
          UNION ALL SELECT FROM cdp.erasures WHERE lineage = ${lineage} LIMIT 1`,
    );
    return rows.length > 0;
  }

  /** All of it, for a backup folder. */
  async wholeLedger(): Promise<LedgerEntry[]> {
    return (await this.select(sql`WHERE ledger IS NOT NULL AND erased_at IS NOT NULL`)) as LedgerEntry[];
  }

  /** Adds entries of a backup folder that are not here yet. */
  async importLedger(entries: readonly LedgerEntry[], keys: readonly KeyRow[]): Promise<void> {
    for (const key of keys) await this.addKey(key);
    for (const { id, lineage, projectId, project, server, kind, ledger, erasedAt } of entries)
      await this.pool.query(
        sql`INSERT INTO cdp.erasures (id, lineage, project_id, project, server, kind, deep, state, ledger, commitments, actor, erased_at, ended_at)
            VALUES (${id}, ${lineage}, ${projectId}, ${project}, ${server}, ${kind}, false, 'done', ${JSON.stringify(ledger)}::jsonb,
              '[]', 'backup folder', ${erasedAt}, now())
            ON CONFLICT (id) DO UPDATE SET ledger = excluded.ledger, erased_at = excluded.erased_at, state = 'done', sealed = NULL,
              ended_at = coalesce(erasures.ended_at, now())`,
      );
  }

  /** The newest first. */
  async keys(purpose: KeyPurpose): Promise<KeyRow[]> {
    const rows = await this.pool.query(
      sql`SELECT ${KEY_JSON} FROM cdp.keys WHERE purpose = ${purpose} ORDER BY created_at DESC, id`,
    );
    return rows.map(([json]) => JSON.parse(json ?? '') as KeyRow);
  }

  /** A key that is there already stays as it is. */
  async addKey({ id, purpose, wrapped, publicKey }: KeyRow): Promise<void> {
    await this.pool.query(
      sql`INSERT INTO cdp.keys (id, purpose, wrapped, public_key)
          VALUES (${id}, ${purpose}, decode(${wrapped}, 'base64'), ${publicKey && JSON.stringify(publicKey)}::jsonb)
          ON CONFLICT DO NOTHING`,
    );
  }

  async rewrap(id: string, wrapped: string): Promise<void> {
    await this.pool.query(sql`UPDATE cdp.keys SET wrapped = decode(${wrapped}, 'base64') WHERE id = ${id}`);
  }

  private async select(which: Fragment): Promise<ErasureRow[]> {
    const rows = await this.pool.query(sql`SELECT ${ERASURE_JSON} FROM cdp.erasures ${which}`);
    return rows.map(([json]) => erasureRow(json ?? ''));
  }
}
