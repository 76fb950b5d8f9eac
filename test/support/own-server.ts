/**
 * Postgres servers like those of projects, each a copy of one template: with small WAL segments and the settings of the
 * test.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { RECOVERY_SETTINGS } from '../../src/embedded/server-folder.js';
import { type Account, accountFor, run } from '../../src/embedded/accounts.js';
import { type Binaries, findBinaries } from '../../src/embedded/binaries.js';
import { type LoginOptions, startupOptions } from '../../src/pg/index.js';
import { makeFolder } from './folder.js';
import { withClient } from './with-client.js';

export interface OwnServers {
  /** For everything that a test makes; goes away at the end. */
  readonly folder: string;
  readonly account: Account;
  /** A server on a copy of the template, not started. */
  copy(name: string): Promise<OwnServer>;
  /** A server on the data folder `name/data`, which somebody else makes. */
  on(name: string): Promise<OwnServer>;
  close(): Promise<void>;
}

export async function ownServers(): Promise<OwnServers> {
  const folder = makeFolder('cdp-own-');
  await chmod(folder, 0o711);
  const account = await accountFor(folder);
  const binaries = await findBinaries({ folder, account }, null);
  const { bin } = binaries;
  const servers: OwnServer[] = [];
  const on = async (name: string): Promise<OwnServer> => {
    const place = join(folder, name);
    for (const path of [place, join(place, 's')]) {
      await mkdir(path, { mode: 0o700 });
      await chown(path, account.uid, account.gid);
    }
    const server = new OwnServer(place, binaries, account);
    servers.push(server);
    return server;
  };
  const template = await on('template');
  const options = ['--username=superuser', '--auth=trust', '--data-checksums', '--no-sync', '--wal-segsize=1'];
  const locale = ['--encoding=UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'];
  const made = await run(account, join(bin, 'initdb'), [`--pgdata=${template.dataFolder}`, ...options, ...locale]);
  if (made.code !== 0) throw new Error(made.output);
  return {
    folder,
    account,
    on,
    copy: async (name) => {
      const server = await on(name);
      await promisify(execFile)('cp', ['-a', template.dataFolder, server.dataFolder]);
      return server;
    },
    close: async () => {
      await Promise.all(servers.map((server) => server.stop('SIGQUIT')));
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export class OwnServer {
  readonly dataFolder: string;
  readonly login: LoginOptions;
  private child: ChildProcess | null = null;
  private said = '';

  constructor(
    private readonly place: string,
    private readonly binaries: Binaries,
    private readonly account: Account,
  ) {
    this.dataFolder = join(place, 'data');
    const at = { host: join(place, 's'), port: 5432, user: 'superuser', password: '', database: 'postgres' };
    this.login = { ...at, connectionTimeoutMillis: 60_000 };
  }

  get pid(): number {
    return this.child?.pid ?? 0;
  }

  /** What it wrote into its log. */
  get log(): string {
    return this.said;
  }

  /** @throws Error with its log where it ends before it takes connections */
  async start(settings: Readonly<Record<string, string>> = {}): Promise<void> {
    const all = {
      listen_addresses: '',
      unix_socket_directories: join(this.place, 's'),
      shared_buffers: '16MB',
      ...settings,
    };
    const lines = Object.entries(all).map(([name, value]) => `${name} = '${value.replace(/['\\]/g, '\\$&')}'`);
    lines.push(`include_if_exists = '${RECOVERY_SETTINGS}'`, '');
    const config = join(this.dataFolder, 'postgresql.conf');
    await writeFile(config, lines.join('\n'));
    await chown(config, this.account.uid, this.account.gid);
    this.said = '';
    const child = spawn(join(this.binaries.bin, 'postgres'), ['-D', this.dataFolder], {
      ...this.account,
      cwd: '/',
      env: this.binaries.environment,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const output of [child.stdout, child.stderr]) {
      output.on('data', (part: Buffer) => (this.said += part.toString()));
    }
    this.child = child;
    for (;;) {
      if (child.exitCode !== null || child.signalCode !== null) throw new Error(this.said);
      const lines = await readFile(join(this.dataFolder, 'postmaster.pid'), 'utf8').catch(() => '');
      if (lines.includes(`${child.pid}\n`) && /\nready *\n/.test(lines)) return;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  async stop(signal: NodeJS.Signals = 'SIGINT'): Promise<void> {
    const { child } = this;
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  }

  client(): pg.Client {
    return new pg.Client({ ...this.login, options: startupOptions({}) });
  }

  rows<Row extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<Row[]> {
    return withClient(this.login, async (client) => (await client.query<Row>(text, values)).rows);
  }
}
