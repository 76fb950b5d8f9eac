/**
 * Checks the running servers of a fleet regularly: limits the size of their logs, and stops idle ones and one that
 * fills the disk.
 */
import { join } from 'node:path';
import { every } from '../contract/every.js';
import { DiskReserve } from './disk-reserve.js';
import { boundLog } from './postmaster.js';
import { ARCHIVE, existingServerFolder, projectFolder } from './server-folder.js';
import type { ServersFolder } from './servers-folder.js';
import type { SupervisedServer } from './supervised-server.js';

const INTERVAL_MS = 500;

/** How long a server that was stopped to keep disk space free may not start again. */
const DISK_PAUSE_MS = 10_000;

export interface SweeperSettings {
  /** Stops a server that has been idle for this time. */
  readonly idleStopMs: number;
  /** Bytes of disk space that projects may not use. */
  readonly diskReserve: number;
}

export interface SweeperEvents {
  /**
   * Called before a running server is stopped.
   * @returns false to keep an idle one running, for instance for autovacuum
   */
  beforeStop(id: string, idleMs: number): Promise<boolean>;
  /** A server was stopped because it grew while the disk was nearly full. */
  grew(id: string, bytes: number): void;
}

export class FleetSweeper {
  private readonly disk: DiskReserve;
  /** Ends the checks. */
  readonly close: () => void;
  /** Servers for which `beforeStop` is running. */
  private readonly asking = new Set<string>();

  constructor(
    private readonly serversFolder: ServersFolder,
    private readonly servers: ReadonlyMap<string, SupervisedServer>,
    private readonly settings: SweeperSettings,
    private readonly events: SweeperEvents,
  ) {
    this.disk = new DiskReserve(serversFolder.folder, settings.diskReserve);
    this.close = every(Math.min(INTERVAL_MS, settings.idleStopMs), () => this.sweep());
  }

  private async sweep(): Promise<void> {
    for (const [id, server] of this.servers) {
      if (server.state !== 'running') continue;
      await boundLog(await existingServerFolder(this.serversFolder, projectFolder(id))).catch(() => {});
      void this.stopIfIdle(id, server);
    }
    await this.keepReserve();
  }

  private async stopIfIdle(id: string, server: SupervisedServer): Promise<void> {
    const idleMs = performance.now() - server.idleSince;
    if (server.users > 0 || idleMs < this.settings.idleStopMs || this.asking.has(id)) return;
    this.asking.add(id);
    const mayStop = await this.events.beforeStop(id, idleMs).catch(() => true);
    const isIdle = server.users === 0 && performance.now() - server.idleSince >= idleMs;
    if (mayStop && isIdle) await server.stop().catch(() => {});
    this.asking.delete(id);
  }

  private async keepReserve(): Promise<void> {
    const running = [...this.servers].filter(([, { state }]) => state === 'running').map(([id]) => id);
    const foldersOf = (id: string) =>
      [projectFolder(id), join(ARCHIVE, id)].map((name) => join(this.serversFolder.folder, name));
    const worst = await this.disk.greatestGrowth(running.map((id) => ({ id, folders: foldersOf(id) })));
    const server = worst === null ? undefined : this.servers.get(worst.id);
    if (worst === null || server === undefined) return;
    server.pause(DISK_PAUSE_MS, 'was stopped because its data was growing while the disk was nearly full');
    this.events.grew(worst.id, worst.bytes);
    await server.stop();
  }
}
