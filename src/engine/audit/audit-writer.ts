/**
 * Buffers entries of the audit log in memory and writes them in groups. A failed write is retried. Entries that do
 * not fit in memory are lost; one later entry says how many.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../../log.js';
import { type AuditRows, type AuditRow, isRefusedEntry } from '../../tenancy/control/audit-rows.js';

/** How long an entry waits for others. */
const DELAY_MS = 250;

/** Maximum number of entries, and of bytes of their statements, in one INSERT. */
const GROUP = 2_000;
const GROUP_BYTES = 4 * 1024 * 1024;

/** Maximum size of the buffer: about eight seconds at 10,000 entries a second. An entry counts as ENTRY_BYTES. */
const WAITING_BYTES = 32 * 1024 * 1024;
const ENTRY_BYTES = 400;

const RETRY_MS = 1_000;

/** How long a shutdown waits for the last entries. */
const CLOSE_MS = 5_000;

export class AuditWriter {
  /** Entries lost since the start. */
  lostEntries = 0;
  private waiting: AuditRow[] = [];
  private waitingBytes = 0;
  private unnotedLosses = 0;
  private failing = false;
  private closed = false;
  private writing: Promise<void> | null = null;
  private timer: NodeJS.Timeout | undefined;

  /** @param entryOfLoss makes the entry that says how many were lost */
  constructor(
    private readonly table: AuditRows,
    private readonly log: Log,
    private readonly entryOfLoss: (count: number) => AuditRow,
  ) {}

  /** Entries that are not written yet. */
  get backlog(): number {
    return this.waiting.length;
  }

  /** Returns at once. */
  add(entry: AuditRow): void {
    const bytes = weight(entry);
    if (this.closed || this.waitingBytes + bytes > WAITING_BYTES) return this.lose(1);
    this.waiting.push(entry);
    this.waitingBytes += bytes;
    this.writeIn(DELAY_MS);
    if (this.isGroup && !this.failing) void this.write();
  }

  /** Writes the buffered entries, if the database accepts them. */
  async flush(): Promise<void> {
    await this.writing;
    do await this.write();
    while (this.waiting.length > 0 && !this.failing && !this.closed);
  }

  /** Writes the buffered entries and accepts no more. Entries that cannot be written now are reported as lost. */
  async close(): Promise<void> {
    const end = new AbortController();
    // It was aborted, because the entries are written.
    const inTime = sleep(CLOSE_MS, undefined, { signal: end.signal }).catch(() => {});
    await Promise.race([this.flush(), inTime]);
    end.abort();
    this.closed = true;
    this.stopTimer();
    if (this.waiting.length > 0) this.lose(this.waiting.length);
    this.waiting = [];
  }

  private lose(count: number): void {
    this.lostEntries += count;
    if (this.unnotedLosses === 0 || this.closed) this.log.error({ lost: count }, 'audit entries are lost');
    this.unnotedLosses += count;
  }

  /** One write at a time: the entries stay in order, and a slow database gets no second one. */
  private write(): Promise<void> {
    this.writing ??= this.writeGroups().finally(() => (this.writing = null));
    return this.writing;
  }

  /** Does nothing if a write is due sooner. */
  private writeIn(ms: number): void {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      void this.write();
    }, ms).unref();
  }

  private stopTimer(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  private get isGroup(): boolean {
    return this.waiting.length >= GROUP || this.waitingBytes >= GROUP_BYTES;
  }

  /**
   * Continues after a group if another is complete, or if an entry has waited long enough. Entries that arrived
   * during a write wait for others; otherwise each write would hold only a few.
   */
  private async writeGroups(): Promise<void> {
    while (this.waiting.length > 0 && !this.closed) {
      this.stopTimer();
      const group = this.waiting.slice(0, groupSize(this.waiting));
      try {
        await this.writeGroup(group);
      } catch (error) {
        if (!this.failing) this.log.error({ error: String(error) }, 'audit entries cannot be written');
        this.failing = true;
        this.stopTimer();
        if (!this.closed) this.writeIn(RETRY_MS);
        return;
      }
      if (this.closed) return;
      this.waiting = this.waiting.slice(group.length);
      for (const entry of group) this.waitingBytes -= weight(entry);
      this.recovered();
      if (this.timer !== undefined && !this.isGroup) return;
    }
  }

  /** An entry that Postgres will never accept must not hold up the others. */
  private async writeGroup(group: readonly AuditRow[]): Promise<void> {
    try {
      await this.table.write(group);
    } catch (error) {
      if (!isRefusedEntry(error)) throw error;
      if (group.length === 1) return this.lose(1);
      const middle = group.length >> 1;
      await this.writeGroup(group.slice(0, middle));
      await this.writeGroup(group.slice(middle));
    }
  }

  /** Records the gap in the log itself. */
  private recovered(): void {
    const count = this.unnotedLosses;
    this.unnotedLosses = 0;
    if (count > 0) this.add(this.entryOfLoss(count));
    if (this.failing || count > 0) {
      this.log[count === 0 ? 'info' : 'error']({ lost: count }, 'audit entries can be written again');
    }
    this.failing = false;
  }
}

const weight = ({ statement }: AuditRow): number => ENTRY_BYTES + 2 * (statement?.length ?? 0);

function groupSize(entries: readonly AuditRow[]): number {
  let bytes = 0;
  let size = 0;
  for (const entry of entries) {
    bytes += weight(entry);
    if (size === GROUP || (size > 0 && bytes > GROUP_BYTES)) break;
    size++;
  }
  return size;
}
