/**
 * Bytes that a project may have in the service's memory: bodies that arrive, wait or are worked on, and answers that
 * their clients have not taken yet. Whoever has no room is not read from, so that the bytes stay with the client.
 */
import type { FastifyRequest } from 'fastify';
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import type { Departure } from '../../engine/admission/departure.js';
import type { Patience } from '../../engine/admission/patience.js';

interface RoomLimits {
  readonly perProject: number;
  /** Over all projects; small requests, and the first of a project, do not depend on it. */
  readonly total: number;
}

const MIB = 1024 * 1024;

/** Six of the largest bodies, and all answers that may be under way, of one project; four such projects at once. */
const ROOM: RoomLimits = { perProject: 6 * LIMITS.bodyBytes + 4 * MIB, total: 256 * MIB };

/** A request up to this size never waits because of other projects. */
const SMALL_BYTES = 64 * 1024;

/** The bytes of one request. */
export interface Place {
  /** What it turned out to be: a body that was unpacked, an answer. Never waits. */
  resize(bytes: number): void;
  /** Call it when the request is over; once is enough. */
  leave(): void;
}

/** What a body may come to. One without a length, or a packed one, may be as long as any. */
export function announcedBytes({ headers }: FastifyRequest): number {
  if (headers['transfer-encoding'] !== undefined || headers['content-encoding'] !== undefined) return LIMITS.bodyBytes;
  const length = Number(headers['content-length'] ?? 0);
  return Number.isSafeInteger(length) ? Math.min(length, LIMITS.bodyBytes) : 0;
}

interface Waiter {
  readonly bytes: number;
  admit(): void;
}

interface Tenant {
  /** Requests that have their place, some of which hold no bytes. */
  places: number;
  bytes: number;
  waiters: Waiter[];
}

export class ByteRoom {
  private bytes = 0;
  /** Requests that wait, over all projects: mostly none, and then nobody need look whose turn it is. */
  private waiting = 0;
  /** Projects with something in memory or waiting. Its order is the order of turns. */
  private readonly tenants = new Map<string, Tenant>();

  constructor(private readonly limits: RoomLimits = ROOM) {}

  /**
   * Takes room, at once where there is some, or waits for it. A request that is alone of its project always has some.
   * @param signal aborted when the client leaves: its waiting ends
   * @throws EngineError overloaded
   */
  enter(project: string, bytes: number, patience: Patience, signal: Departure): Place | Promise<Place> {
    const tenant = this.tenants.get(project) ?? this.newTenant(project);
    const isBehind = bytes > SMALL_BYTES && tenant.waiters.length > 0;
    if (!isBehind && this.hasRoom(tenant, bytes)) {
      tenant.places++;
      this.take(tenant, bytes);
      return new TakenPlace(this, project, tenant, bytes);
    }
    const waited = patience.wait();
    return this.wait(project, tenant, bytes, patience.ms, signal)
      .finally(waited)
      .then(() => new TakenPlace(this, project, tenant, bytes));
  }

  private newTenant(project: string): Tenant {
    const tenant: Tenant = { places: 0, bytes: 0, waiters: [] };
    this.tenants.set(project, tenant);
    return tenant;
  }

  /** Of a place that is left, or turns out larger or smaller. */
  change(tenant: Tenant, more: number): void {
    this.take(tenant, more);
    if (more < 0 && this.waiting > 0) this.admitNext();
  }

  leave(project: string, tenant: Tenant): void {
    tenant.places--;
    this.forget(project, tenant);
  }

  /** An idle project costs nothing. */
  private forget(project: string, tenant: Tenant): void {
    if (tenant.places === 0 && tenant.waiters.length === 0) this.tenants.delete(project);
  }

  private wait(project: string, tenant: Tenant, bytes: number, waitMs: number, signal: Departure): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', giveUp);
        this.waiting--;
      };
      const giveUp = () => {
        settle();
        tenant.waiters = tenant.waiters.filter((other) => other !== waiter);
        this.forget(project, tenant);
        reject(overloaded());
        // What stood behind it may be smaller.
        this.admitNext();
      };
      const admit = () => {
        settle();
        resolve();
      };
      const waiter: Waiter = { bytes, admit };
      const timer = setTimeout(giveUp, waitMs);
      signal.addEventListener('abort', giveUp, { once: true });
      tenant.waiters.push(waiter);
      this.waiting++;
      if (signal.aborted) giveUp();
    });
  }

  /** One of each project in turn, as far as there is room. */
  private admitNext(): void {
    for (const [project, tenant] of this.tenants) {
      const [next] = tenant.waiters;
      if (next === undefined || !this.hasRoom(tenant, next.bytes)) continue;
      tenant.waiters.shift();
      tenant.places++;
      this.take(tenant, next.bytes);
      // To the end of the line; iteration comes back to it.
      this.tenants.delete(project);
      this.tenants.set(project, tenant);
      next.admit();
    }
  }

  private hasRoom(tenant: Tenant, bytes: number): boolean {
    // Whatever others do: all of them together go beyond the total by one body for each project at most.
    if (tenant.bytes === 0) return true;
    if (tenant.bytes + bytes > this.limits.perProject) return false;
    return bytes <= SMALL_BYTES || this.bytes + bytes <= this.limits.total;
  }

  private take(tenant: Tenant, bytes: number): void {
    tenant.bytes += bytes;
    this.bytes += bytes;
  }
}

class TakenPlace implements Place {
  private hasLeft = false;

  constructor(
    private readonly room: ByteRoom,
    private readonly project: string,
    private readonly tenant: Tenant,
    private bytes: number,
  ) {}

  resize(bytes: number): void {
    if (this.hasLeft) return;
    const more = bytes - this.bytes;
    this.bytes = bytes;
    this.room.change(this.tenant, more);
  }

  leave(): void {
    if (this.hasLeft) return;
    this.resize(0);
    this.hasLeft = true;
    this.room.leave(this.project, this.tenant);
  }
}

const overloaded = () =>
  new EngineError('overloaded', 'Too many large requests or answers are under way', { retryAfter: 1 });
