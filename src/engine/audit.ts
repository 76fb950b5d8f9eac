/**
 * The audit log: who did what, and what came of it. Entries of changes to projects and tokens are written with the
 * change itself, in one statement. Entries of requests wait in memory and are written in groups, so that no request waits
 * for them; what cannot be written is tried again, and what finds no room is counted. Why so:
 * docs/decisions/0017-audit-log.md.
 */
import { hash, randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AuditActor, AuditMode, AuditOperation, AuditStatements } from '../contract/audit.js';
import { LIMITS } from '../contract/limits.js';
import { type AuditEntry, type AuditFilter, type AuditLog, isRefusedEntry } from '../postgres/audit-log.js';
import { RefusalCounter } from './refusal-counter.js';

export interface AuditSettings {
  audit: AuditMode;
  auditStatements: AuditStatements;
  /** Entries are kept for so many days. */
  auditDays: number;
  /** Told when entries cannot be written or removed, when that is over, and of entries that were lost. */
  onAuditTrouble: (message: string, details: Record<string, unknown>) => void;
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
export interface Event {
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

/** How long an entry waits for others. */
const DELAY_MS = 250;

/** Entries, and bytes of their statements, in one INSERT. */
const GROUP = 2_000;
const GROUP_BYTES = 4 * 1024 * 1024;

/** What waits in memory at most, at 10,000 entries a second some eight seconds. An entry counts as so many bytes. */
const WAITING_BYTES = 32 * 1024 * 1024;
const ENTRY_BYTES = 400;

const RETRY_MS = 1_000;

/** A stop waits so long for requests whose clients have left, and for the last entries to be written. */
const SETTLE_MS = 50;
const CLOSE_MS = 5_000;

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
  'read_table',
  'insert',
  'sql_read',
  'project.list',
  'token.list',
  'audit.read',
]);

/** A name, an id, a subject: longer ones are hostile. */
const TEXT_CHARACTERS = 200;

export class Audit {
  /** Entries that nobody will ever read, since the start. */
  lost = 0;
  private waiting: AuditEntry[] = [];
  private waitingBytes = 0;
  private unnotedLosses = 0;
  private failing = false;
  private closed = false;
  private writing: Promise<void> | null = null;
  private timer: NodeJS.Timeout | undefined;
  private refusalTimer: NodeJS.Timeout | undefined;
  private removalTimer: NodeJS.Timeout | undefined;
  /** Strangers cannot crowd out those who have a token. */
  private readonly strangers = new RefusalCounter(100);
  private readonly callers = new RefusalCounter(1_000);
  /** Two instances, or two runs, start so far apart that they do not meet. */
  private nextId = randomInt(2 ** 47) * 2 ** 5;

  constructor(
    private readonly log: AuditLog,
    private readonly settings: AuditSettings,
  ) {}

  get isOff(): boolean {
    return this.settings.audit === 'off';
  }

  /** Entries that are not written yet. */
  get backlog(): number {
    return this.waiting.length;
  }

  /** Of a request that is over. Returns at once. */
  record(origin: Origin, event: Event): void {
    const { audit } = this.settings;
    const cheap = CHEAP_REFUSALS.has(event.outcome);
    if (audit === 'off' || (audit === 'changes' && NOT_CHANGES.has(event.operation) && !cheap)) return;
    const entry = this.entry(origin, event);
    if (cheap && !this.isFirstRefusal(entry)) return;
    this.add(entry);
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
  async flush(): Promise<void> {
    await this.writing;
    await this.write();
  }

  /** Writes what waits and takes nothing more. What cannot be written by now is lost, and said to be. */
  async close(): Promise<void> {
    clearInterval(this.removalTimer);
    await sleep(SETTLE_MS);
    this.takeRefusals();
    const end = new AbortController();
    const inTime = sleep(CLOSE_MS, undefined, { signal: end.signal }).catch(() => {});
    await Promise.race([this.flush(), inTime]);
    end.abort();
    this.closed = true;
    clearTimeout(this.timer);
    if (this.waiting.length > 0) this.lose(this.waiting.length);
    this.waiting = [];
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
      statementSha256: statement === null ? null : hash('sha256', statement, 'hex'),
      statement: statement === null || this.settings.auditStatements === 'hash' ? null : storable(statement),
      rows: event.rows ?? null,
      outcome: event.outcome,
      status: origin.status,
      durationMs: startedAt === null ? null : Math.round((performance.now() - startedAt) * 100) / 100,
      count: event.count ?? 1,
    };
  }

  private isFirstRefusal(entry: AuditEntry): boolean {
    this.refusalTimer ??= setTimeout(() => this.takeRefusals(), REFUSALS_EVERY_MS).unref();
    return (entry.actor === 'unknown' ? this.strangers : this.callers).isFirst(entry);
  }

  private takeRefusals(): void {
    clearTimeout(this.refusalTimer);
    this.refusalTimer = undefined;
    for (const entry of [...this.strangers.take(), ...this.callers.take()]) {
      this.add({ ...entry, at: Date.now(), id: this.nextId++ });
    }
  }

  private add(entry: AuditEntry): void {
    const bytes = weight(entry);
    if (this.closed || this.waitingBytes + bytes > WAITING_BYTES) return this.lose(1);
    this.waiting.push(entry);
    this.waitingBytes += bytes;
    if (this.waiting.length >= GROUP && !this.failing) void this.write();
    else this.timer ??= setTimeout(() => void this.write(), DELAY_MS).unref();
  }

  private lose(count: number): void {
    this.lost += count;
    const { onAuditTrouble } = this.settings;
    if (this.unnotedLosses === 0 || this.closed) onAuditTrouble('audit entries are lost', { lost: count });
    this.unnotedLosses += count;
  }

  /** One writer at a time: the entries stay in order, and a slow database is not asked twice. */
  private write(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.writing ??= this.writeGroups().finally(() => (this.writing = null));
    return this.writing;
  }

  private async writeGroups(): Promise<void> {
    while (this.waiting.length > 0 && !this.closed) {
      const group = this.waiting.slice(0, groupSize(this.waiting));
      try {
        await this.writeGroup(group);
      } catch (error) {
        if (!this.failing) this.settings.onAuditTrouble('audit entries cannot be written', { error: String(error) });
        this.failing = true;
        if (!this.closed) this.timer = setTimeout(() => void this.write(), RETRY_MS).unref();
        return;
      }
      if (this.closed) return;
      this.waiting = this.waiting.slice(group.length);
      for (const entry of group) this.waitingBytes -= weight(entry);
      this.recovered();
    }
  }

  /** An entry that Postgres will never take must not hold the others up. */
  private async writeGroup(group: readonly AuditEntry[]): Promise<void> {
    try {
      await this.log.write(group);
    } catch (error) {
      if (!isRefusedEntry(error)) throw error;
      if (group.length === 1) return this.lose(1);
      const middle = group.length >> 1;
      await this.writeGroup(group.slice(0, middle));
      await this.writeGroup(group.slice(middle));
    }
  }

  /** The gap is in the log itself, where it will be missed. */
  private recovered(): void {
    const count = this.unnotedLosses;
    this.unnotedLosses = 0;
    if (count > 0) this.add(this.entry(BY_ITSELF, { operation: 'audit.lost', outcome: 'internal', count }));
    if (this.failing || count > 0) {
      this.settings.onAuditTrouble('audit entries are written again', { lost: count });
    }
    this.failing = false;
  }
}

const weight = ({ statement }: AuditEntry): number => ENTRY_BYTES + 2 * (statement?.length ?? 0);

function groupSize(entries: readonly AuditEntry[]): number {
  let bytes = 0;
  let size = 0;
  for (const entry of entries) {
    bytes += weight(entry);
    if (size === GROUP || (size > 0 && bytes > GROUP_BYTES)) break;
    size++;
  }
  return size;
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
