/** The embedded Postgres of a data folder: the control server, and a server for each project. */
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { exists } from '../files.js';
import { type Binaries, findBinaries, refuseOtherMajor } from './binaries.js';
import { buildFolder } from './build-folder.js';
import { ProjectCgroups } from './cgroup.js';
import { initializeCluster } from './cluster.js';
import { PORT, serverConfig, type ServerSize, SUPERUSER } from './config.js';
import { ControlServer } from './control-server.js';
import { Fleet, type FleetEvents, type FleetSettings, type Socket } from './fleet.js';
import { CONTROL, homeOf, makeHome } from './home.js';
import { startPostmaster } from './postmaster.js';
import { findRoot, type Log, type Root } from './root.js';

export interface EmbeddedOptions extends FleetSettings {
  /** Made if it is missing. */
  readonly dataDir: string;
  /** The command that wants it, for those that come meanwhile. */
  readonly owner: string;
  readonly log: Log;
  /** Called when the control server is about to start: until it answers there is time for other work. */
  readonly starting?: () => void;
}

/** The contents of every new project's server. */
export interface Template {
  /** Of its contents: if it changes, another template is made. */
  readonly version: string;
  /** Fills a server that initdb has made. */
  readonly prepare: (socket: Socket) => Promise<void>;
}

export interface Embedded {
  readonly control: ControlServer;
  readonly binaries: Binaries;
  /** Ends what an earlier service has left running, and takes charge of the projects' servers. Once. */
  readonly openFleet: (template: Template, events: FleetEvents) => Promise<Fleet>;
}

/**
 * Starts the control server of the data folder, and makes it at the first start.
 * @throws AnotherOwner; a plain Error that an operator can act on
 */
export async function openEmbedded(options: EmbeddedOptions): Promise<Embedded> {
  const { log, size } = options;
  const cgroups = await ProjectCgroups.open();
  const root = await findRoot(options.dataDir, log);
  const binaries = await findBinaries(root);
  const home = homeOf(root, CONTROL);
  if (!(await exists(home.data))) {
    log('creating the control database');
    await makeHome(home);
    await buildFolder(home.data, (data) => initializeCluster(data, root.account, binaries, size.durable));
  }
  await refuseOtherMajor(home.data, binaries);
  options.starting?.();
  const control = await ControlServer.open(home, binaries, size.durable, log, options.owner);
  return {
    control,
    binaries,
    openFleet: (template, events) =>
      Fleet.open(
        root,
        binaries,
        once(() => templateFolder(root, binaries, template, options)),
        options,
        events,
        cgroups,
      ),
  };
}

/** The data directory that new servers are copied from; made if it is missing or not of this version. */
async function templateFolder(
  root: Root,
  binaries: Binaries,
  { version, prepare }: Template,
  { size, backendMib }: { size: ServerSize; backendMib: number },
): Promise<string> {
  const name = `template-${binaries.version}-${version}`;
  const home = homeOf(root, name);
  if (await exists(home.data)) return home.data;
  for (const other of await readdir(root.folder)) {
    if (other.startsWith('template-')) await rm(join(root.folder, other), { recursive: true, force: true });
  }
  await makeHome(home);
  await buildFolder(home.data, async (data) => {
    await initializeCluster(data, root.account, binaries, size.durable);
    const building = { ...home, data };
    const config = serverConfig(building, size);
    const server = await startPostmaster(building, binaries, { config, backendMib, exclusive: true });
    try {
      await prepare({ host: home.socketDir, port: PORT, user: SUPERUSER });
    } finally {
      await server.stop();
    }
  });
  return home.data;
}

/** Callers at the same time share one result; after a failure the next caller tries again. */
function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | null = null;
  return () => {
    made ??= make().catch((error: unknown) => {
      made = null;
      throw error;
    });
    return made;
  };
}
