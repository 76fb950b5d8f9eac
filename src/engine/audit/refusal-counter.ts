/**
 * Refusals that cost nothing to provoke (a wrong token, a missing scope, too many requests) could fill the disk
 * through the audit log. The first of a kind becomes an entry at once; those that follow within an interval become one
 * entry with a count.
 */
import type { AuditRow } from '../../tenancy/control/audit-log.js';

interface Group {
  /** The latest counted one; null until a second arrives. */
  latest: AuditRow | null;
  counted: number;
}

export class RefusalCounter {
  private groups = new Map<string, Group>();

  /**
   * @param kinds maximum number of kinds that are told apart in an interval; the others share an entry by operation and outcome
   */
  constructor(private readonly kinds: number) {}

  /** @returns true for the first of its kind, to be written now; others are counted */
  isFirst(entry: AuditRow): boolean {
    const what = `${entry.operation} ${entry.outcome}`;
    const who = `${what} ${entry.actor_id ?? entry.address ?? ''}`;
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

  /** Ends the interval. @returns an entry for each kind that occurred more than once */
  take(): AuditRow[] {
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
