/**
 * The audit log: who did what, and the outcome. The entry of a change to a project or token is written in the same
 * statement as the change. Entries of requests are written in groups, so that no request waits for them
 * (docs/decisions/0017-audit-log.md).
 */
import { createHmac, randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type AuditMode,
  type AuditStatements,
  BY_ITSELF,
  type AuditOrigin,
  OTHER_AUDIT_OPERATIONS,
} from '../../contract/audit.js';
import { runPeriodically } from '../../tasks.js';
import { LIMITS } from '../../contract/limits.js';
import { roundedMs } from '../../contract/wire/fields.js';
import type { Log } from '../../log.js';
import type { AuditFilter, AuditRows, AuditRow } from '../../tenancy/control/audit-rows.js';
import { AuditWriter } from './audit-writer.js';

export interface AuditSettings {
  audit: AuditMode;
  auditStatements: AuditStatements;
  /** How long entries are kept, in days. */
  auditDays: number;
  log: Log;
}

/** A caller (`access/tokens.ts`) as the audit log shows it. @param caller null: unknown */
export function actorOf(
  caller: Readonly<{ id: string; name: string | null; project: object | null }> | null,
): Pick<AuditOrigin, 'actor' | 'actorId' | 'actorName'> {
  if (caller === null) return { actor: 'unknown', actorId: null, actorName: null };
  const actor = caller.project === null ? 'admin' : caller.name === null ? 'jwt' : 'token';
  return { actor, actorId: caller.id, actorName: caller.name };
}

/** Who it was, for people: `token nightly`. */
export const authorOf = ({ actor, actorId, actorName }: AuditOrigin): string =>
  [actor, actorName ?? actorId].filter((part) => part !== null).join(' ');

interface AuditEvent {
  /** A word of an operation of the API, or of `OTHER_AUDIT_OPERATIONS`. */
  operation: string;
  /** Whether the setting `changes` records an operation of the API; default: yes. */
  isChange?: boolean;
  /** Whether repeats within a minute are counted in one entry; default: no. */
  isPolled?: boolean;
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

const REPEATS_EVERY_MS = 60_000;
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

/** For a name, an id or a subject: longer ones are hostile. */
const TEXT_CHARACTERS = 200;

export class Audit {
  private readonly writer: AuditWriter;
  private repeatTimer: NodeJS.Timeout | undefined;
  private stopRemoving = () => {};
  /** Separate, so that unknown callers cannot crowd out those who have a token. */
  private readonly strangers = new RepeatCounter(100);
  private readonly callers = new RepeatCounter(1_000);
  /** Random, so that instances and runs use ids far apart. */
  private nextId = randomInt(2 ** 47) * 2 ** 5;

  constructor(
    private readonly table: AuditRows,
    private readonly settings: AuditSettings,
    /** Of the installation: without it, nobody can tell a guessed statement by its hash. */
    private readonly key: Buffer,
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
    return this.writer.lostEntries;
  }

  /** Records a request that has ended. Returns at once. */
  record(origin: AuditOrigin, event: AuditEvent): void {
    const { audit } = this.settings;
    const cheap = CHEAP_REFUSALS.has(event.outcome);
    const isChange = OTHER_AUDIT_OPERATIONS.get(event.operation) ?? event.isChange ?? true;
    if (audit === 'off' || (audit === 'changes' && !isChange && !cheap)) return;
    const entry = this.entry(origin, event);
    const mayRepeat = cheap || (event.isPolled === true && event.outcome === 'ok');
    if (mayRepeat && !this.isFirst(entry)) return;
    this.writer.add(entry);
  }

  /** The entry that is written with a change; `withEntry` fills in the project. null: nothing is recorded. */
  entryOfChange(origin: AuditOrigin, event: { operation: string; object?: string }): AuditRow | null {
    return this.isOff ? null : this.entry(origin, { ...event, outcome: 'ok' });
  }

  /** @throws EngineError query_timeout, database_unavailable */
  read(filter: AuditFilter): Promise<AuditRow[]> {
    return this.table.read(filter);
  }

  /** Starts to remove old entries at regular intervals. */
  startRemovingOld(): void {
    const remove = () => this.removeOld();
    this.stopRemoving = runPeriodically(REMOVE_EVERY_MS, 'clear_audit_log', remove, this.settings.log, {
      isFirstNow: true,
    });
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
    this.takeRepeats();
    await this.writer.close();
  }

  private entry(origin: AuditOrigin, event: AuditEvent): AuditRow {
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
      statement_sha256: statement === null ? null : this.hashOf(statement),
      statement: statement === null || this.settings.auditStatements === 'hash' ? null : storable(statement),
      rows: event.rows ?? null,
      outcome: event.outcome,
      status: origin.status,
      duration_ms: startedAt === null ? null : roundedMs(performance.now() - startedAt),
      count: event.count ?? 1,
    };
  }

  /** Entries of earlier versions have the plain SHA-256, without `hmac:`. */
  private hashOf(statement: string): string {
    return `hmac:${createHmac('sha256', this.key).update(statement).digest('hex')}`;
  }

  private isFirst(entry: AuditRow): boolean {
    this.repeatTimer ??= setTimeout(() => this.takeRepeats(), REPEATS_EVERY_MS).unref();
    return (entry.actor === 'unknown' ? this.strangers : this.callers).isFirst(entry);
  }

  private takeRepeats(): void {
    clearTimeout(this.repeatTimer);
    this.repeatTimer = undefined;
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

// Refusals that cost nothing to provoke (a wrong token, a missing scope, too many requests) could fill the disk
// through the audit log, and an open screen that reads a list every few seconds would hide what people do. The first of
// a kind becomes an entry at once; those that follow within an interval become one entry with a count.

interface Group {
  /** The latest counted one; null until a second arrives. */
  latest: AuditRow | null;
  repeats: number;
}

export class RepeatCounter {
  private groups = new Map<string, Group>();

  /**
   * @param kinds maximum number of kinds that are told apart in an interval; the others share an entry by operation and outcome
   */
  constructor(private readonly kinds: number) {}

  /** @returns true for the first of its kind, to be written now; others are counted */
  isFirst(entry: AuditRow): boolean {
    const what = `${entry.operation} ${entry.outcome}`;
    const who = `${what} ${entry.actor_id ?? entry.address ?? ''}`;
    const existing = this.groups.get(who);
    if (existing === undefined && this.groups.size < this.kinds) {
      this.groups.set(who, { latest: null, repeats: 0 });
      return true;
    }
    const group = existing ?? this.shared(what);
    group.repeats++;
    group.latest = existing === undefined ? anonymous(entry) : entry;
    return false;
  }

  /** Ends the interval. @returns an entry for each kind that occurred more than once */
  take(): AuditRow[] {
    const groups = [...this.groups.values()];
    this.groups = new Map();
    return groups.flatMap(({ latest, repeats: counted }) => (latest === null ? [] : [{ ...latest, count: counted }]));
  }

  private shared(what: string): Group {
    const group = this.groups.get(what) ?? { latest: null, repeats: 0 };
    this.groups.set(what, group);
    return group;
  }
}

/** Stands for callers too numerous to name. */
const anonymous = (entry: AuditRow): AuditRow => ({
  ...entry,
  request_id: null,
  project_id: null,
  project: null,
  actor_id: null,
  actor_name: null,
  address: null,
  duration_ms: null,
});
