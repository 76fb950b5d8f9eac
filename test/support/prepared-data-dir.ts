/**
 * A data folder that no service has used yet, created once for a run: most tests of the program are not about its first
 * start.
 */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { pino } from 'pino';
import { inject } from 'vitest';
import { loadConfig } from '../../src/cli/load-config.js';
import { openPostgres } from '../../src/postgres.js';
import { openConfiguredEngine } from '../../src/configured-engine.js';
import { BY_ITSELF } from '../../src/contract/audit.js';

declare module 'vitest' {
  interface ProvidedContext {
    preparedDataDir: string;
  }
}

/** For `global-setup.ts`: with the control database and the template for projects. */
export async function prepareDataDir(dataDir: string): Promise<void> {
  const { config } = loadConfig({ 'data-dir': dataDir }, {}, null);
  const logger = pino({ level: 'silent' });
  const database = await openPostgres(config, 'test', logger);
  // Tests kill processes, not the machine: what was written is there without waiting for the disk.
  await writeFile(join(dataDir, 'postgres', 'local.conf'), 'fsync = off\n');
  const engine = await openConfiguredEngine(config, database, logger);
  await engine.projects.create('prepared');
  await engine.projects.delete('prepared', BY_ITSELF);
  await engine.close();
  await database.close();
}

/** Makes a copy of it for a test. @param dataDir does not exist, in a folder that does */
export const copyPreparedDataDir = (dataDir: string): Promise<void> => copyDataDir(inject('preparedDataDir'), dataDir);

/** With owners and modes. */
export async function copyDataDir(from: string, to: string): Promise<void> {
  await promisify(execFile)('cp', ['-a', from, to]);
}
