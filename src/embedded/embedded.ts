/** The embedded Postgres of a data folder: the control server, and a server for each project. */
import { createHash } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { memoized } from '../promises.js';
import { exists, removeFolder } from '../files.js';
import { type Binaries, findBinaries, refuseOtherMajor } from './binaries.js';
import type { Account } from './accounts.js';
import { ProjectCgroups } from './cgroup.js';
import { initializeCluster } from './cluster.js';
import { PORT, serverConfig, SUPERUSER } from './postgres-config.js';
import { MIN_BUFFERS_MIB } from './process-limits.js';
import { ControlServer } from './control-server.js';
import { Fleet, type FleetEvents, type FleetSettings, type ProjectServerSize, type SuperuserLogin } from './fleet.js';
import { buildFolder, CONTROL, makeServerFolder, RECOVERY_SETTINGS, serverFolder } from './server-folder.js';
import { startPostmaster } from './postmaster.js';
import { findEmbeddedFolder, type EmbeddedFolder } from './embedded-folder.js';
import type { Log } from '../log.js';

export interface EmbeddedOptions extends FleetSettings {
  /** Created if it is missing. */
  readonly dataDir: string;
  /** The folder of the programs, if it has those of servers; null: those of the npm package. */
  readonly postgresBin: string | null;
  /** The command that opens it, for error messages of other commands. */
  readonly owner: string;
  readonly log: Log;
  /** Called before the control server starts; other work can run meanwhile. */
  readonly starting?: () => void;
  /** Makes the data directory of the control server, if there is none, from a backup. */
  readonly makeControl?: (data: string, account: Account) => Promise<void>;
}

/** The contents of every new project's server. */
export interface Template {
  /** If it changes, a new template is created. */
  readonly version: string;
  /** Prepares a server that initdb has created. */
  readonly prepare: (socket: SuperuserLogin) => Promise<void>;
}

export interface Embedded {
  readonly folder: string;
  readonly control: ControlServer;
  readonly binaries: Binaries;
  /** Stops servers that an earlier service has left running, and manages the projects' servers. Call it once. */
  readonly openFleet: (template: Template, events: FleetEvents) => Promise<Fleet>;
}

/**
 * Starts the control server of the data folder. Creates it at the first start.
 * @throws DataFolderInUse; Error that an operator can act on
 */
export async function openEmbedded(options: EmbeddedOptions): Promise<Embedded> {
  const { log, size } = options;
  const cgroups = await ProjectCgroups.open();
  const serversFolder = await findEmbeddedFolder(options.dataDir, log);
  const binaries = await findBinaries(serversFolder, options.postgresBin);
  const folder = serverFolder(serversFolder, CONTROL);
  if (!(await exists(folder.data))) {
    log.info({}, 'creating the control database');
    await makeServerFolder(folder);
    const { makeControl = (data, account) => initializeCluster(data, account, binaries, size.durable) } = options;
    await buildFolder(folder.data, (data) => makeControl(data, serversFolder.account));
  }
  await refuseOtherMajor(folder.data, binaries);
  options.starting?.();
  const control = await ControlServer.open(folder, binaries, size.durable, log, options.owner);
  // A recovery has ended, because the server accepts connections.
  await rm(join(folder.data, RECOVERY_SETTINGS), { force: true });
  return {
    folder: serversFolder.folder,
    control,
    binaries,
    async openFleet(template, events) {
      const make = memoized(() => templateFolder(serversFolder, binaries, template, options));
      const fleet = new Fleet(serversFolder, binaries, make, options, events, cgroups);
      await fleet.stopLeftBehind();
      return fleet;
    },
  };
}

/** The data directory from which new servers are copied. Creates it if it is missing or has another version. */
async function templateFolder(
  serversFolder: EmbeddedFolder,
  binaries: Binaries,
  { version, prepare }: Template,
  { size, backendMib }: { size: ProjectServerSize; backendMib: number },
): Promise<string> {
  // The release, because programs of the same version from elsewhere have other versions of collations.
  const hash = createHash('sha256').update(`${binaries.release} ${version}`).digest('hex').slice(0, 12);
  const name = `template-${binaries.version}-${hash}`;
  const folder = serverFolder(serversFolder, name);
  if (await exists(folder.data)) return folder.data;
  for (const other of await readdir(serversFolder.folder)) {
    if (other.startsWith('template-')) await removeFolder(join(serversFolder.folder, other));
  }
  await makeServerFolder(folder);
  await buildFolder(folder.data, async (data) => {
    await initializeCluster(data, serversFolder.account, binaries, size.durable);
    const building = { ...folder, data };
    const tuning = { ...size, sharedBuffersMib: MIN_BUFFERS_MIB, parallelWorkers: 0 };
    const config = serverConfig(building, tuning, binaries.major);
    const server = await startPostmaster(building, binaries, {
      config,
      backendMib,
      isFirstVictim: true,
      exclusive: true,
    });
    try {
      await prepare({ host: folder.socketDir, port: PORT, user: SUPERUSER });
    } finally {
      await server.stop();
    }
  });
  return folder.data;
}
