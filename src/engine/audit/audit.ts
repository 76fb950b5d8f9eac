/**
 * The audit log: who did what, with what outcome. Entries of changes to projects and tokens are written with the change
 * itself, in one statement. Entries of requests are written in groups, so that no request waits for them
 * (docs/decisions/0017-audit-log.md).
 */
import { hash, randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AuditActor, AuditMode, AuditOperation, AuditStatements } from '../../contract/audit.js';
import { LIMITS } from '../../contract/limits.js';
import type { AuditFilter, AuditLog, AuditRow } from '../../tenancy/audit-log.js';
import { AuditWriter, type OnAuditTrouble } from './audit-writer.js';
import { RefusalCounter } from './refusal-counter.js';

export type { AuditRow } from '../../tenancy/audit-log.js';

export interface AuditSettings {
  audit: AuditMode;
  auditStatements: AuditStatements;
  /** Days for which entries are kept. */
  auditDays: number;
  onAuditTrouble: OnAuditTrouble;
}

/** Who asked for something, and by what request. */
export interface Origin {
  actor: AuditActor;
  /** Of the token, subject of a JWT, or name of an account. */
  actorId: string | null;
  actorName: string | null;
  requestId: string | null;
  address: string | null;
  /** Of the answer; null: there is none. */
  status: number | null;
  /** By `performance.now()`. */
  startedAt: number | null;
}

/** A caller (`access/tokens.ts`) in the audit log. @param caller null: nobody knows who it is */
export function actorOf(
  caller: Readonly<{ id: string; name: string | null; project: object | null }> | null,
): Pick<Origin, 'actor' | 'actorId' | 'actorName'> {
  if (caller === null) return { actor: 'unknown', actorId: null, actorName: null };
  const actor = caller.project === null ? 'admin' : caller.name === null ? 'jwt' : 'token';
  return { actor, actorId: caller.id, actorName: caller.name };
}

/** What the service does by itself. */
export const BY_ITSELF: Origin = {
  actor: 'service',
  actorId: null,
  actorName: null,
  requestId: null,
  address: null,
  status: null,
  startedAt: null,
};

/** What was done. */
interface Event {
  operation: AuditOperation;
  outcome: string;
  /** Without an id if there may be none of that name. */
  project?: { id: string | null; name: string } | null;
  object?: string | null;
  /** The text of free SQL. */
  statement?: string | null;
  rows?: number | null;
  count?: number;
}

/** How long a stop waits for requests whose clients have left: their connections to Postgres have just been closed. */
const SETTLE_MS = 50;

const REFUSALS_EVERY_MS = 60_000;
const REMOVE_EVERY_MS = 3_600_000;

/** Refusals that come before anything is done. */
const CHEAP_REFUSALS: ReadonlySet<string> = new Set([
  'unauthorized',
  'token_expired',
  'insufficient_scope',
  'cdp_inactive',
  'rate_limited',
  'overloaded',
]);

/** What `changes` leaves out, unless the caller was refused. */
const NOT_CHANGES: ReadonlySet<AuditOperation> = new Set([
  'read_schema',
  'token.read',
  'read_table',
  'read_indexes',
  'read_quarantine',
  'insert',
  'receipts',
  'sql_read',
  'rehearsal',
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

/** A name, an id, a subject: longer ones are hostile. */
const TEXT_CHARACTERS = 200;

export class Audit {
  private readonly writer: AuditWriter;
  private refusalTimer: NodeJS.Timeout | undefined;
  private removalTimer: NodeJS.Timeout | undefined;
  /** Apart, so that strangers cannot crowd out those who have a token. */
  private readonly strangers = new RefusalCounter(100);
  private readonly callers = new RefusalCounter(1_000);
  /** Two instances, or two runs, start far enough apart. */
  private nextId = randomInt(2 ** 47) * 2 ** 5;

  constructor(
    private readonly log: AuditLog,
    private readonly settings: AuditSettings,
  ) {
    this.writer = new AuditWriter(log, settings.onAuditTrouble, (count) =>
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

  /** Of a request that is over. Returns at once. */
  record(origin: Origin, event: Event): void {
    const { audit } = this.settings;
    const cheap = CHEAP_REFUSALS.has(event.outcome);
    if (audit === 'off' || (audit === 'changes' && NOT_CHANGES.has(event.operation) && !cheap)) return;
    const entry = this.entry(origin, event);
    if (cheap && !this.isFirstRefusal(entry)) return;
    this.writer.add(entry);
  }

  /**
   * The entry that a change writes with it, see `withEntry`, which fills in the project; null: nothing is recorded.
   */
  entryOfChange(origin: Origin, event: { operation: AuditOperation; object?: string }): AuditRow | null {
    return this.isOff ? null : this.entry(origin, { ...event, outcome: 'ok' });
  }

  /** @throws EngineError query_timeout, database_unavailable */
  read(filter: AuditFilter): Promise<AuditRow[]> {
    return this.log.read(filter);
  }

  /** Starts removing old entries regularly. */
  keepRemovingOld(): void {
    const remove = () => {
      this.removeOld().catch((error: unknown) =>
        this.settings.onAuditTrouble('old audit entries cannot be removed', { error: String(error) }),
      );
    };
    this.removalTimer = setInterval(remove, REMOVE_EVERY_MS).unref();
    remove();
  }

  removeOld(): Promise<number> {
    return this.log.removeOlderThan(this.settings.auditDays);
  }

  /** Writes what waits, as far as the database lets it. */
  flush(): Promise<void> {
    return this.writer.flush();
  }

  /** Writes what waits and takes nothing more. */
  async close(): Promise<void> {
    clearInterval(this.removalTimer);
    await sleep(SETTLE_MS);
    this.takeRefusals();
    await this.writer.close();
  }

  private entry(origin: Origin, event: Event): AuditRow {
    const { startedAt } = origin;
    const { statement = null, project = null } = event;
    return {
      at: Date.now(),
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
      duration_ms: startedAt === null ? null : Math.round((performance.now() - startedAt) * 100) / 100,
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
      this.writer.add({ ...entry, at: Date.now(), id: this.nextId++ });
    }
  }
}

/** Postgres text holds no U+0000, and a lone surrogate has no UTF-8. */
const storable = (text: string): string => text.slice(0, LIMITS.sqlBytes).replace(/[\0\p{Cs}]/gu, '\uFFFD');

/** What a terminal would obey, or show in another order. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

const printable = (text: string | null | undefined): string | null =>
  text?.slice(0, TEXT_CHARACTERS).replace(UNPRINTABLE, '\uFFFD') ?? null;
