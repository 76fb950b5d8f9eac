/** Loading an archive of pg_dump into the database of a project that was just made, as the project's own writer. */
import { randomBytes } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import pg from 'pg';
import { type ArchiveStatement, chooseEntries, statementsIn, withSearchPath } from './archive-entries.js';
import { ProgramFailed, run } from './client-programs.js';
import { EXTENSIONS_SCHEMA } from '../../tenancy/extensions.js';
import { libpqEnvironment } from './libpq.js';
import type { Placement } from '../../tenancy/placement.js';
import type { DumpOptions } from './project-dump.js';
import { type LoginOptions, startupOptions, withClient } from '../../postgres/server.js';
import { UNDEFINED_OBJECT } from '../../postgres/sqlstate.js';

/** What names roles in an archive: those of the project that it was made of. */
type DumpedRoles = Pick<Placement, 'database' | 'writer' | 'reader'>;

/**
 * @param list of the archive's entries, as pg_restore made it
 * @param open reads the archive from its start, each time it is called
 * @returns what was left out, in words
 * @throws ProgramFailed, pg.DatabaseError; what was loaded until then is there
 */
export async function loadProject(
  options: DumpOptions,
  dumped: DumpedRoles,
  list: string,
  open: () => Readable,
): Promise<string[]> {
  const { tenancy, placement, programs, folder, signal } = options;
  const entries = chooseEntries(list, placement.schema);
  const path = `${placement.schema}, ${EXTENSIONS_SCHEMA}`;
  const login: LoginOptions = {
    ...tenancy.serverOf(placement).address,
    database: placement.database,
    user: placement.writer,
    password: tenancy.password(placement.writer),
    application_name: 'cdp restore',
    options: startupOptions({ search_path: path, jit: 'off', client_connection_check_interval: '1s' }),
  };
  const environment = await libpqEnvironment(login, folder);
  const restore = async (lines: readonly string[], target: string): Promise<string> => {
    if (lines.length === 0) return '';
    const listFile = join(folder, randomBytes(8).toString('hex'));
    await writeFile(listFile, `${lines.join('\n')}\n`, { mode: 0o600 });
    const args = ['--no-owner', '--no-tablespaces', '--exit-on-error', `--use-list=${listFile}`, target];
    const input = Readable.from(patched(open(), path));
    try {
      return await run(join(programs.folder, 'pg_restore'), args, { environment, signal, input });
    } finally {
      await rm(listFile, { force: true });
    }
  };
  const texts = (lines: readonly string[]) => restore(lines, '--file=-');
  await restore(entries.contents, `--dbname=${placement.database}`);
  const roles = new Map((['database', 'writer', 'reader'] as const).map((role) => [dumped[role], placement[role]]));
  const statements = statementsIn(await texts(entries.statements), roles);
  return withClient(login, (client) => runAll(client, statements), signal);
}

/** The first bytes of an archive hold all that is looked for there. */
const START_BYTES = 4_096;

async function* patched(archive: Readable, path: string): AsyncGenerator<Buffer> {
  let start: Buffer | null = Buffer.alloc(0);
  for await (const part of archive as AsyncIterable<Buffer>) {
    if (start === null) {
      yield part;
      continue;
    }
    start = Buffer.concat([start, part]);
    if (start.length < START_BYTES) continue;
    yield withSearchPath(start, path);
    start = null;
  }
  if (start !== null) yield withSearchPath(start, path);
}

/** Rights of roles that are not on this server, which a project may have given to any that it knew, help nobody here. */
async function runAll(client: pg.Client, statements: readonly ArchiveStatement[]): Promise<string[]> {
  const leftOut: string[] = [];
  for (const { text, isRight } of statements) {
    try {
      await client.query(text);
    } catch (error) {
      if (!(error instanceof pg.DatabaseError)) throw error;
      const what = `${error.message}: ${text.replaceAll(/\s+/g, ' ')}`;
      if (!(isRight && error.code === UNDEFINED_OBJECT)) throw new ProgramFailed(what);
      leftOut.push(what);
    }
  }
  return leftOut;
}
