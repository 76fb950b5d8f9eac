/**
 * Checks the running servers of a fleet regularly: limits the size of their logs, and stops idle ones, and one that
 * still grows while projects may only be read (docs/decisions/0058). What fails for one server does not stop the checks of the others.
 */
import { join } from 'node:path';
import { runPeriodically } from '../tasks.js';
import type { Log } from '../log.js';
import { DiskReserve } from './disk-reserve.js';
import { boundLog } from './postmaster.js';
import { ARCHIVE, existingServerFolder, projectFolder } from './server-folder.js';
import type { EmbeddedFolder } from './embedded-folder.js';
import type { Supervisor } from './supervisor.js';

const INTERVAL_MS = 500;

/** How long a server that was stopped to keep disk space free may not start again. */
const DISK_PAUSE_MS = 10_000;

export interface HousekeepingSettings {
  /** Stops a server that has been idle for this time. */
  readonly idleStopMs: number;
  /** Bytes of disk space that projects may not use. */
  readonly diskReserve: number;
  readonly log: Log;
}

export interface HousekeepingEvents {
  /**
   * Called before a running server is stopped.
   * @returns false to keep an idle one running, for instance for autovacuum
   */
  beforeStop(id: string, idleMs: number): Promise<boolean>;
  /** A server is about to start, or continues after `beforeStop`. */
  inUse(id: string): void;
  /** A server was stopped because it grew while the disk was nearly full. */
  grew(id: string, bytes: number): void;
  /** The files of a running server cannot be read or written, for instance because its disk is damaged. */
  unreadable(id: string, error: unknown): void;
}

export class FleetHousekeeping {
  private readonly disk: DiskReserve;
  /** Ends the checks. */
  readonly close: () => void;
  /** Servers for which `beforeStop` is running. */
  private readonly asking = new Set<string>();
  /** The last error with the files of each server. */
  private readonly reportedErrors = new Map<string, string>();
  /** Servers stopped because they grew, since the disk last had room. */
  private readonly stoppedForGrowth = new Set<string>();

  constructor(
    private readonly serversFolder: EmbeddedFolder,
    private readonly servers: ReadonlyMap<string, Supervisor>,
    private readonly settings: HousekeepingSettings,
    private readonly events: HousekeepingEvents,
  ) {
    const unreadable = (id: string, error: unknown) => this.report(id, error);
    this.disk = new DiskReserve(serversFolder.folder, settings.diskReserve, unreadable);
    const interval = Math.min(INTERVAL_MS, settings.idleStopMs);
    this.close = runPeriodically(interval, 'watch_disk', () => this.checkAll(), settings.log);
  }

  /** Whether less than the reserve of disk space is free. */
  get isDiskLow(): boolean {
    return this.disk.isUsed;
  }

  /** Whether a server was stopped because it grew while the disk was nearly full, as it still is. */
  wasStoppedForGrowth(id: string): boolean {
    return this.stoppedForGrowth.has(id);
  }

  private async checkAll(): Promise<void> {
    for (const [id, server] of this.servers) {
      if (server.state !== 'running') continue;
      await this.boundLogOf(id).catch((error: unknown) => this.report(id, error));
      void this.stopIfIdle(id, server);
    }
    await this.keepReserve();
  }

  private async boundLogOf(id: string): Promise<void> {
    await boundLog(await existingServerFolder(this.serversFolder, projectFolder(id)));
  }

  /** Reports an error of a server once. The files of one that is being stopped may just have been removed. */
  private report(id: string, error: unknown): void {
    if (this.servers.get(id)?.state !== 'running' || this.reportedErrors.get(id) === String(error)) return;
    this.reportedErrors.set(id, String(error));
    this.events.unreadable(id, error);
  }

  /** Never rejects. */
  private async stopIfIdle(id: string, server: Supervisor): Promise<void> {
    const idleMs = performance.now() - server.idleSince;
    if (server.users > 0 || idleMs < this.settings.idleStopMs || this.asking.has(id)) return;
    this.asking.add(id);
    // A server that does not answer has nothing left to do.
    const mayStop = await this.events.beforeStop(id, idleMs).catch(() => true);
    const isIdle = server.users === 0 && performance.now() - server.idleSince >= idleMs;
    // It keeps running; the next check tries again.
    if (mayStop && isIdle) await server.stop().catch(() => {});
    else this.events.inUse(id);
    this.asking.delete(id);
  }

  private async keepReserve(): Promise<void> {
    const running = [...this.servers].filter(([, { state }]) => state === 'running').map(([id]) => id);
    const foldersOf = (id: string) =>
      [projectFolder(id), join(ARCHIVE, id)].map((name) => join(this.serversFolder.folder, name));
    const wasLow = this.disk.isUsed;
    const worst = await this.disk.greatestGrowth(running.map((id) => ({ id, folders: foldersOf(id) })));
    if (this.disk.isUsed !== wasLow) this.reportDisk();
    const server = worst === null ? undefined : this.servers.get(worst.id);
    if (worst === null || server === undefined) return;
    this.stoppedForGrowth.add(worst.id);
    server.pause(DISK_PAUSE_MS, 'was stopped because its data was growing while the disk was nearly full');
    this.events.grew(worst.id, worst.bytes);
    await server.stop();
  }

  private reportDisk(): void {
    const { log } = this.settings;
    if (this.disk.isUsed)
      log.error({}, 'the disk is nearly full: projects can only be read (setting disk-reserve-mib)');
    else {
      this.stoppedForGrowth.clear();
      log.info({}, 'the disk has room again: projects can be written');
    }
  }
}
