/**
 * Limits the memory that projects use in the service: for bodies that arrive, wait or are processed, and for responses
 * that clients have not read yet. A request reserves memory before its body is read, so that the body stays with the
 * client while it waits.
 */
import { Counts } from '../../counts.js';
import { LIMITS } from '../../contract/limits.js';
import { FairQueue } from '../../db/fair-queue.js';
import type { WaitBudget } from '../../db/wait-budget.js';

interface MemoryLimits {
  readonly perProject: number;
  /** For all projects together. Small requests, and the only request of a project, are exempt. */
  readonly total: number;
}

const MIB = 1024 * 1024;

/** Per project, six of the largest bodies and the responses in progress; in total, about four such projects. */
const DEFAULT_LIMITS: MemoryLimits = { perProject: 6 * LIMITS.bodyBytes + 4 * MIB, total: 256 * MIB };

/** A request up to this size never waits because of other projects. */
const SMALL_BYTES = 64 * 1024;

/** The bytes of one request. */
export interface Reservation {
  /** Adjusts to the actual size of the body. Never waits. */
  resize(bytes: number): void;
  /**
   * Waits for as much more memory as makes this many bytes, if it is more than now. The only request of a project always
   * gets it.
   * @throws EngineError overloaded, that of the signal
   */
  extend(to: number, waitBudget: WaitBudget, signal: AbortSignal): Promise<void>;
  /** Adds the response: the body is kept until it has been sent. Never waits. */
  grow(bytes: number): void;
  /** Further calls do nothing. */
  release(): void;
}

/** What a request wants in addition to what it holds. */
interface Wanted {
  readonly bytes: number;
  readonly held: number;
}

const sizeWith = ({ bytes, held }: Wanted): number => bytes + held;

export class MemoryBudget {
  /** Bytes by project. */
  private readonly usedByProject = new Counts();
  private readonly queue = new FairQueue<Wanted>({
    tryTake: (projectId, wanted) => this.tryTake(projectId, wanted),
    order: 'first',
    late: 'Too many large requests or responses are in progress',
  });

  constructor(private readonly limits: MemoryLimits = DEFAULT_LIMITS) {}

  /**
   * Waits for free memory. The only request of a project always gets some.
   * @param signal aborted when the client disconnects, or with the EngineError that ends the request
   * @throws EngineError overloaded
   */
  async reserve(projectId: string, bytes: number, waitBudget: WaitBudget, signal: AbortSignal): Promise<Reservation> {
    await this.take(projectId, { bytes, held: 0 }, waitBudget, signal);
    let reserved = bytes;
    let isReleased = false;
    const set = (to: number) => {
      const more = to - reserved;
      reserved = to;
      this.usedByProject.add(projectId, more);
      if (more < 0) this.queue.admitNext();
    };
    const resize = (to: number) => {
      if (!isReleased) set(to);
    };
    const grow = (by: number) => resize(reserved + by);
    const extend = async (to: number, waitBudget: WaitBudget, signal: AbortSignal) => {
      const more = to - reserved;
      if (isReleased || more <= 0) return;
      await this.take(projectId, { bytes: more, held: reserved }, waitBudget, signal);
      reserved += more;
      if (isReleased) set(0);
    };
    const release = () => {
      isReleased = true;
      set(0);
    };
    return { resize, grow, extend, release };
  }

  private async take(projectId: string, wanted: Wanted, waitBudget: WaitBudget, signal: AbortSignal): Promise<void> {
    const isBehind = sizeWith(wanted) > SMALL_BYTES && this.queue.lengthOf(projectId) > 0;
    if (isBehind || !this.tryTake(projectId, wanted)) await this.queue.wait(projectId, wanted, waitBudget, signal);
  }

  private tryTake(projectId: string, wanted: Wanted): boolean {
    const { bytes, held } = wanted;
    const used = this.usedByProject.of(projectId);
    // The first bytes of a project always fit, so each project exceeds the total by one body at most.
    const fits =
      used === held ||
      (used + bytes <= this.limits.perProject &&
        (sizeWith(wanted) <= SMALL_BYTES || this.usedByProject.total + bytes <= this.limits.total));
    if (fits) this.usedByProject.add(projectId, bytes);
    return fits;
  }
}
