/**
 * Refusals that cost nothing to provoke (a wrong token, a missing scope, too many requests) could fill the disk through
 * the audit log. The first of a kind is an entry at once; those that follow within an interval become one with a number.
 */
import type { AuditEntry } from '../../tenancy/audit-rows.js';

interface Group {
  /** The latest of those that were counted; null while the first one is alone. */
  latest: AuditEntry | null;
  counted: number;
}

export class RefusalCounter {
  private groups = new Map<string, Group>();

  /** @param kinds how many kinds are told apart in an interval; the others share an entry for operation and outcome */
  constructor(private readonly kinds: number) {}

  /** @returns true where it is the first of its kind and is to be written now; else it was counted */
  isFirst(entry: AuditEntry): boolean {
    const what = `${entry.operation} ${entry.outcome}`;
    const who = `${what} ${entry.actorId ?? entry.address ?? ''}`;
    const known = this.groups.get(who);
    if (known === undefined && this.groups.size < this.kinds) {
      this.groups.set(who, { latest: null, counted: 0 });
      return true;
    }
    const group = known ?? this.shared(what);
    group.counted++;
    group.latest = known === undefined ? anonymous(entry) : entry;
    return false;
  }

  /** Ends the interval. @returns an entry for each kind of which more than one came */
  take(): AuditEntry[] {
    const groups = [...this.groups.values()];
    this.groups = new Map();
    return groups.flatMap(({ latest, counted }) => (latest === null ? [] : [{ ...latest, count: counted }]));
  }

  private shared(what: string): Group {
    const group = this.groups.get(what) ?? { latest: null, counted: 0 };
    this.groups.set(what, group);
    return group;
  }
}

/** It stands for callers of whom there were too many to name. */
const anonymous = (entry: AuditEntry): AuditEntry => ({
  ...entry,
  requestId: null,
  projectId: null,
  project: null,
  actorId: null,
  actorName: null,
  address: null,
  durationMs: null,
});
