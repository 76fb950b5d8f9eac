/** A data folder as initdb leaves it, made once for a run: most tests of the program are not about its first start. */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { inject } from 'vitest';
import { instanceSecret } from '../../src/instance-secret.js';
import { Credentials } from '../../src/tenancy/credentials.js';
import { findBinaries } from '../../src/embedded/binaries.js';
import { ensureCluster } from '../../src/embedded/cluster.js';
import { findHome } from '../../src/embedded/home.js';

declare module 'vitest' {
  interface ProvidedContext {
    preparedDataDir: string;
  }
}

/** For `global-setup.ts`. */
export async function prepareDataDir(dataDir: string): Promise<void> {
  const password = await passwordOf(dataDir);
  const home = await findHome(dataDir, () => {});
  await ensureCluster(home, await findBinaries(home), password, false);
  // Tests kill processes, not the machine: what was written is there without waiting for the disk. A new database goes
  // into the log page by page; to pack those takes most of its time.
  await writeFile(join(home.root, 'local.conf'), 'fsync = off\nwal_compression = off\n');
}

/** Makes a copy of it for a test. @param dataDir does not exist, in a folder that does */
export const copyPreparedDataDir = (dataDir: string): Promise<void> => copyDataDir(inject('preparedDataDir'), dataDir);

/** With owners and modes. */
export async function copyDataDir(from: string, to: string): Promise<void> {
  await promisify(execFile)('cp', ['-a', from, to]);
}

/** The superuser's, with the secret of the folder, which is made where it is missing. */
export const passwordOf = async (dataDir: string): Promise<string> =>
  new Credentials(await instanceSecret(dataDir)).password('superuser');
