/** Temporary Postgres servers with a URL: the embedded 18, and the older major versions on the machine. */
import { existsSync } from 'node:fs';
import { chown, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Account, accountFor, ENVIRONMENT, run } from '../../src/embedded/accounts.js';
import { type Binaries, findBinaries } from '../../src/embedded/binaries.js';
import { PORT, SUPERUSER } from '../../src/embedded/postgres-config.js';

/** How to reach a server as its superuser; `host` is the folder of its socket. */
export interface Connection {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  readonly database: string;
}

export interface ThrowawayServer {
  readonly connection: Connection;
  readonly pid: number;
  readonly log: string;
  /** @param mode as of `pg_ctl stop` */
  stop(mode?: 'fast' | 'immediate'): Promise<void>;
}

/** The majors from 15 to 17 that are installed. 18 is the embedded one. */
export const debianMajors = (): number[] => [15, 16, 17].filter((major) => existsSync(debianPrograms(major)));

export const debianPrograms = (major: number): string => `/usr/lib/postgresql/${major}/bin`;

export const PASSWORD = 'for-tests-only';

/** Every role needs its password, as on the server of a careful operator. */
const HBA = 'local all all scram-sha-256\nhost all,replication all 127.0.0.1/32 scram-sha-256\n';

interface Options {
  readonly major?: number;
  /** `name=value` */
  readonly settings?: readonly string[];
  /** Listens there on 127.0.0.1 besides its socket, which then has that number, too. */
  readonly port?: number;
  /** Lines of pg_hba.conf, before those that every server has. */
  readonly hba?: string;
  /** Of all files; default: whom the embedded servers run as. */
  readonly account?: Account;
}

/**
 * Starts the server of a folder, and makes its cluster if it is missing. The folder's path is short, so the socket
 * fits. Nothing is flushed: tests kill processes, not the machine, and what was acknowledged survives that.
 */
export async function startThrowaway(folder: string, options: Options = {}): Promise<ThrowawayServer> {
  const { major = 18, settings = [], port, hba = '' } = options;
  const { account = await accountFor(folder) } = options;
  const binaries =
    major === 18
      ? await embeddedPrograms(folder, account)
      : { bin: debianPrograms(major), version: '', environment: ENVIRONMENT };
  const data = join(folder, 'data');
  const program = async (name: string, ...args: string[]) => {
    const variables = Object.entries(binaries.environment).map(([key, value]) => `${key}=${value}`);
    const { code, output } = await run(account, '/usr/bin/env', [...variables, join(binaries.bin, name), ...args]);
    if (code !== 0) throw new Error(output);
  };
  if (!existsSync(data)) {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const passwordFile = join(folder, 'password');
    await writeFile(passwordFile, PASSWORD);
    for (const path of [folder, passwordFile]) await chown(path, account.uid, account.gid);
    const locale = major === 18 ? '--locale=C' : '--locale=C.UTF-8';
    const init = ['-D', data, '-U', SUPERUSER, `--pwfile=${passwordFile}`, '--auth=scram-sha-256', '--no-sync'];
    await program('initdb', ...init, '--encoding=UTF8', locale);
    await rm(passwordFile);
    await writeFile(join(data, 'pg_hba.conf'), hba + HBA);
  }
  const fast = ['fsync=off', 'full_page_writes=off'];
  const tcp = port === undefined ? ['listen_addresses='] : ['listen_addresses=127.0.0.1', `port=${port}`];
  const all = [`unix_socket_directories=${folder}`, ...tcp, 'max_connections=120', 'jit=off'];
  const given = [...all, ...fast, ...settings].map((setting) => `-c ${setting}`).join(' ');
  const log = join(folder, 'log');
  await program('pg_ctl', 'start', '-w', '-D', data, '-l', log, '-o', given);
  const pid = Number.parseInt(await readFile(join(data, 'postmaster.pid'), 'utf8'));
  return {
    connection: { host: folder, port: port ?? PORT, user: SUPERUSER, password: PASSWORD, database: 'postgres' },
    pid,
    log,
    stop: (mode = 'immediate') => program('pg_ctl', 'stop', '-w', '-m', mode, '-D', data),
  };
}

const embeddedPrograms = (folder: string, account: Account): Promise<Binaries> =>
  findBinaries({ folder, account }, null);
