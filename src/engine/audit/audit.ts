/**
 * The audit log: who did what, and the outcome. The entry of a change to a project or token is written in the same
 * statement as the change. Entries of requests are written in groups, so that no request waits for them
 * (docs/decisions/0017-audit-log.md).
 */
import { hash, randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AuditActor, AuditMode, AuditOperation, AuditStatements } from '../../contract/audit.js';
import { every } from '../../contract/every.js';
import { LIMITS } from '../../contract/limits.js';
import { roundedMs } from '../../contract/rounded-ms.js';
import type { Log } from '../../log.js';
import type { AuditFilter, AuditLog, AuditRow } from '../../tenancy/control/audit-log.js';
import { AuditWriter } from './audit-writer.js';
import { RefusalCounter } from './refusal-counter.js';

export type { AuditRow } from '../../tenancy/control/audit-log.js';

export interface AuditSettings {
  audit: AuditMode;
  auditStatements: AuditStatements;
  /** How long entries are kept, in days. */
  auditDays: number;
  log: Log;
}

/** The author of an operation, and the request that asked for it. */
export interface Origin {
  actor: AuditActor;
  /** The id of a token, the subject of a JWT, or the name of an account. */
  actorId: string | null;
  actorName: string | null;
  requestId: string | null;
  address: string | null;
  /** Status of the response; null: there is none. */
  status: number | null;
  /** On the clock of `performance.now()`. */
  startedAt: number | null;
}

/** A caller (`access/tokens.ts`) as the audit log shows it. @param caller null: unknown */
export function actorOf(
  caller: Readonly<{ id: string; name: string | null; project: object | null }> | null,
): Pick<Origin, 'actor' | 'actorId' | 'actorName'> {
  if (caller === null) return { actor: 'unknown', actorId: null, actorName: null };
  const actor = caller.project === null ? 'admin' : caller.name === null ? 'jwt' : 'token';
  return { actor, actorId: caller.id, actorName: caller.name };
}

/** The origin of actions that the service takes on its own. */
export const BY_ITSELF: Origin = {
  actor: 'service',
  actorId: null,
  actorName: null,
  requestId: null,
  address: null,
  status: null,
  startedAt: null,
};

interface Event {
  operation: AuditOperation;
  outcome: string;
  /** The id is null if no project of that name may exist. */
  project?: { id: string | null; name: string } | null;
  object?: string | null;
  statement?: string | null;
  rows?: number | null;
  count?: number;
}

/**
 * How long a shutdown waits for requests whose clients have disconnected: their connections to Postgres have just been
 * closed.
 */
const SETTLE_MS = 50;

const REFUSALS_EVERY_MS = 60_000;
const REMOVE_EVERY_MS = 3_600_000;

/** Refusals that precede any work. */
const CHEAP_REFUSALS: ReadonlySet<string> = new Set([
  'unauthorized',
  'token_expired',
  'insufficient_scope',
  'cdp_inactive',
  'rate_limited',
  'overloaded',
]);

/** Operations that the setting `changes` leaves out, unless the caller was refused. */
const NOT_CHANGES: ReadonlySet<AuditOperation> = new Set([
  'read_schema',
  'token.read',
  'read_table',
  'read_indexes',
  'read_quarantine',
  'insert',
  'receipts',
  'sql_read',
  'dry_run',
  'mcp',
  'project.list',
  'server.check',
  'server.list',
  'server.read',
  'token.list',
  'session.open',
  'session.close',
  'audit.read',
  'request.list',
]);

/** For a name, an id or a subject: longer ones are hostile. */
const TEXT_CHARACTERS = 200;

export class Audit {
  private readonly writer: AuditWriter;
  private refusalTimer: NodeJS.Timeout | undefined;
  private stopRemoving = () => {};
  /** Separate, so that unknown callers cannot crowd out those who have a token. */
  private readonly strangers = new RefusalCounter(100);
  private readonly callers = new RefusalCounter(1_000);
  /** Random, so that instances and runs use ids far apart. */
  private nextId = randomInt(2 ** 47) * 2 ** 5;

  constructor(
    private readonly table: AuditLog,
    private readonly settings: AuditSettings,
  ) {
    this.writer = new AuditWriter(table, settings.log, (count) =>
      this.entry(BY_ITSELF, { operation: 'audit.lost', outcome: 'internal', count }),
    );
  }

  get isOff(): boolean {
    return this.settings.audit === 'off';
  }

  /** Entries that are not written yet. */
  get backlog(): number {
    return this.writer.backlog;
  }

  /** Entries lost since the start. */
  get lost(): number {
    return this.writer.lost;
  }

  /** Records a request that has ended. Returns at once. */
  record(origin: Origin, event: Event): void {
    const { audit } = this.settings;
    const cheap = CHEAP_REFUSALS.has(event.outcome);
    if (audit === 'off' || (audit === 'changes' && NOT_CHANGES.has(event.operation) && !cheap)) return;
    const entry = this.entry(origin, event);
    if (cheap && !this.isFirstRefusal(entry)) return;
    this.writer.add(entry);
  }

  /** The entry that is written with a change; `withEntry` fills in the project. null: nothing is recorded. */
  entryOfChange(origin: Origin, event: { operation: AuditOperation; object?: string }): AuditRow | null {
    return this.isOff ? null : this.entry(origin, { ...event, outcome: 'ok' });
  }

  /** @throws EngineError query_timeout, database_unavailable */
  read(filter: AuditFilter): Promise<AuditRow[]> {
    return this.table.read(filter);
  }

  /** Starts to remove old entries at regular intervals. */
  startRemovingOld(): void {
    const failed = (error: unknown) =>
      this.settings.log.error({ error: String(error) }, 'old audit entries cannot be removed');
    this.stopRemoving = every(REMOVE_EVERY_MS, () => this.removeOld(), failed);
    this.removeOld().catch(failed);
  }

  removeOld(): Promise<number> {
    return this.table.removeOlderThan(this.settings.auditDays);
  }

  /** Writes the buffered entries, if the database accepts them. */
  flush(): Promise<void> {
    return this.writer.flush();
  }

  /** Writes the buffered entries and accepts no more. */
  async close(): Promise<void> {
    this.stopRemoving();
    await sleep(SETTLE_MS);
    this.takeRefusals();
    await this.writer.close();
  }

  private entry(origin: Origin, event: Event): AuditRow {
    const { startedAt } = origin;
    const { statement = null, project = null } = event;
    return {
      at: new Date(),
      id: this.nextId++,
      request_id: origin.requestId,
      project_id: project?.id ?? null,
      project: printable(project?.name),
      actor: origin.actor,
      actor_id: printable(origin.actorId),
      actor_name: printable(origin.actorName),
      address: origin.address,
      operation: event.operation,
      object: printable(event.object),
      statement_sha256: statement === null ? null : hash('sha256', statement, 'hex'),
      statement: statement === null || this.settings.auditStatements === 'hash' ? null : storable(statement),
      rows: event.rows ?? null,
      outcome: event.outcome,
      status: origin.status,
      duration_ms: startedAt === null ? null : roundedMs(performance.now() - startedAt),
      count: event.count ?? 1,
    };
  }

  private isFirstRefusal(entry: AuditRow): boolean {
    this.refusalTimer ??= setTimeout(() => this.takeRefusals(), REFUSALS_EVERY_MS).unref();
    return (entry.actor === 'unknown' ? this.strangers : this.callers).isFirst(entry);
  }

  private takeRefusals(): void {
    clearTimeout(this.refusalTimer);
    this.refusalTimer = undefined;
    for (const entry of [...this.strangers.take(), ...this.callers.take()]) {
      this.writer.add({ ...entry, at: new Date(), id: this.nextId++ });
    }
  }
}

/** Postgres text holds no U+0000, and a lone surrogate has no UTF-8. */
const storable = (text: string): string => text.slice(0, LIMITS.sqlBytes).replace(/[\0\p{Cs}]/gu, '\uFFFD');

/** Characters that a terminal would obey, or that would reorder its output. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

const printable = (text: string | null | undefined): string | null =>
  text?.slice(0, TEXT_CHARACTERS).replace(UNPRINTABLE, '\uFFFD') ?? null;
