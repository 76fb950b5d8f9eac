/**
 * Works of a project that arrive in one turn of the event loop, for the same kind of connection, share one. What they
 * send goes out in one write: waking a backend costs more than the rest of a small query. Only for works that neither
 * open a transaction nor change anything.
 */
import { EngineError } from '../../contract/errors.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import { NEVER } from '../limits/deadline.js';
import type { DatabaseAccess, UseOptions, Work } from './database-access.js';

interface Gathered {
  readonly project: ProjectRow;
  readonly use: UseOptions;
  /** Hands over its result, or that Postgres refused what it sent, which does not concern the others. */
  readonly work: Work<void>;
  readonly runAlone: () => void;
  readonly reject: (error: unknown) => void;
}

export class SharedUse {
  private readonly gathered = new Map<string, Gathered[]>();

  constructor(private readonly database: DatabaseAccess) {}

  /** As {@link DatabaseAccess.use}. */
  use<T>(project: ProjectRow, use: UseOptions, work: Work<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.gather({
        project,
        use,
        work: (lease, clock) =>
          work(lease, clock).then(resolve, (error: unknown) => {
            if (!(error instanceof EngineError) || error.code !== 'sql_error') throw error;
            reject(error);
          }),
        runAlone: () => resolve(this.database.use(project, use, work)),
        reject,
      });
    });
  }

  private gather(gathered: Gathered): void {
    const { project, use } = gathered;
    const { server, database } = project.placement;
    const key = `${project.id} ${server} ${database} ${use.connection} ${use.deadline.timeoutMs}`;
    const others = this.gathered.get(key);
    if (others !== undefined) return void others.push(gathered);
    const group = [gathered];
    this.gathered.set(key, group);
    setImmediate(() => {
      this.gathered.delete(key);
      if (group.length === 1) gathered.runAlone();
      else void this.runTogether(gathered, group);
    });
  }

  private async runTogether({ project, use }: Gathered, group: readonly Gathered[]): Promise<void> {
    const work: Work<void> = async (lease, clock) => {
      const outcomes = await Promise.allSettled(group.map((one) => one.work(lease, clock)));
      const failed = outcomes.find((outcome) => outcome.status === 'rejected');
      if (failed !== undefined) throw failed.reason;
    };
    // A client that disconnects must not cancel the queries of others.
    const deadline = { ...use.deadline, signal: NEVER };
    try {
      await this.database.use(project, { ...use, deadline }, work);
    } catch (error) {
      // Those that have their outcome keep it.
      for (const { reject } of group) reject(error);
    }
  }
}
