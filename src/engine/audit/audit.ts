/**
 * The audit log: who did what, and what came of it. Entries of changes to projects and tokens are written with the
 * change itself, in one statement. Entries of requests wait in memory and are written in groups, so that no request waits
 * for them; what cannot be written is tried again, and what finds no room is counted. Why so:
 * docs/decisions/0017-audit-log.md.
 */
import { hash, randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { LruMap } from 'toad-cache';
import type { AuditActor, AuditMode, AuditOperation, AuditStatements } from '../../contract/audit.js';
import { LIMITS } from '../../contract/limits.js';
import type { AuditFilter, AuditLog } from '../../tenancy/audit-log.js';
import type { AuditEntry } from '../../tenancy/audit-rows.js';
import { AuditWriter, type OnAuditTrouble } from './audit-writer.js';
import { RefusalCounter } from './refusal-counter.js';

export interface AuditSettings {
  audit: AuditMode;
  auditStatements: AuditStatements;
  /** Entries are kept for so many days. */
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
  /** What an answer of success says; null where there is no answer. */
  status: number | null;
  /** By `performance.now()`. */
  startedAt: number | null;
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
  /** Without an id where there may be none of that name. */
  project?: { id: string | null; name: string } | null;
  object?: string | null;
  /** The text of free SQL. */
  statement?: string | null;
  rows?: number | null;
  count?: number;
}

/** A stop waits so long for requests whose clients have left: their connections to Postgres have just been closed. */
const SETTLE_MS = 50;

const REFUSALS_EVERY_MS = 60_000;
const REMOVE_EVERY_MS = 3_600_000;
const DAY_MS = 86_400_000;

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
  'insert',
  'sql_read',
  'project.list',
  'token.list',
  'audit.read',
]);

/** Hashes of statements that are kept, and how long these may be: at most some 2 MiB. */
const HASHES = 500;
const SHORT_STATEMENT = 2_000;

/** A name, an id, a subject: longer ones are hostile. */
const TEXT_CHARACTERS = 200;

export class Audit {
  private readonly writer: AuditWriter;
  private refusalTimer: NodeJS.Timeout | undefined;
  private removalTimer: NodeJS.Timeout | undefined;
  /** Strangers cannot crowd out those who have a token. */
  private readonly strangers = new RefusalCounter(100);
  private readonly callers = new RefusalCounter(1_000);
  /** Of short statements that came lately, by their text. */
  private readonly hashes = new LruMap<string>(HASHES);
  /** Two instances, or two runs, start so far apart that they do not meet. */
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

  /** Entries that nobody will ever read, since the start. */
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
   * For a change that takes its entry along; null where nothing is recorded. The project is filled in from the row that
   * changes, see `withEntry`.
   */
  entryOfChange(origin: Origin, event: { operation: AuditOperation; object?: string }): AuditEntry | null {
    return this.isOff ? null : this.entry(origin, { ...event, outcome: 'ok' });
  }

  /** @throws EngineError query_timeout, database_unavailable */
  read(filter: AuditFilter): Promise<AuditEntry[]> {
    return this.log.read(filter);
  }

  /** From now on old entries are removed along the way. */
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
    return this.log.removeBefore(new Date(Date.now() - this.settings.auditDays * DAY_MS));
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

  /** Field by field: spread objects have no fixed shape, which costs several times the rest. */
  private entry(origin: Origin, event: Event): AuditEntry {
    const { startedAt, actorId, actorName } = origin;
    const { statement = null, project = null, object = null } = event;
    return {
      at: Date.now(),
      id: this.nextId++,
      requestId: origin.requestId,
      projectId: project === null ? null : project.id,
      project: project === null ? null : clean(project.name),
      actor: origin.actor,
      actorId: actorId === null ? null : clean(actorId),
      actorName: actorName === null ? null : clean(actorName),
      address: origin.address,
      operation: event.operation,
      object: object === null ? null : clean(object),
      statementSha256: statement === null ? null : this.hashOf(statement),
      statement: statement === null || this.settings.auditStatements === 'hash' ? null : storable(statement),
      rows: event.rows ?? null,
      outcome: event.outcome,
      status: origin.status,
      durationMs: startedAt === null ? null : Math.round((performance.now() - startedAt) * 100) / 100,
      count: event.count ?? 1,
    };
  }

  /** Most statements of a program come again. */
  private hashOf(statement: string): string {
    const known = this.hashes.get(statement);
    if (known !== undefined) return known;
    const found = hash('sha256', statement, 'hex');
    // A copy: the text itself may be a part of a body that is many times as long, and keep that.
    if (statement.length <= SHORT_STATEMENT) this.hashes.set(Buffer.from(statement).toString(), found);
    return found;
  }

  private isFirstRefusal(entry: AuditEntry): boolean {
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

/** What a terminal would obey, or show in another order, is not written in the first place. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** Most names are; the test is cheap, the replacement is not. */
const PLAIN = /^[\w .:@/+=-]{0,200}$/;

function clean(text: string): string {
  if (PLAIN.test(text)) return text;
  return text.slice(0, TEXT_CHARACTERS).replace(UNPRINTABLE, '\uFFFD');
}
