/**
 * A Postgres server with a URL, as an operator adds it: Debian's, in a folder of its own, with a role that is not a
 * superuser.
 */
import { execFileSync } from 'node:child_process';
import { chownSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { ready, start } from './process.mjs';

const DEBIAN = '/usr/lib/postgresql';

/** The folder of the newest version that is installed. */
function programs() {
  const majors = readdirSync(DEBIAN)
    .map(Number)
    .sort((a, b) => b - a);
  return join(DEBIAN, String(majors[0]), 'bin');
}

/** Postgres refuses to run as root. */
function account() {
  if (process.getuid() !== 0) return {};
  const id = (flag) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}

export class Postgres {
  /**
   * @param {string} folder that any user may enter
   * @param {string[]} settings `name=value`
   */
  constructor(folder, settings = []) {
    this.folder = folder;
    this.settings = ['listen_addresses=', `unix_socket_directories=${folder}`, 'max_connections=150', ...settings];
    this.log = join(folder, 'log');
    this.account = account();
    mkdirSync(folder, { mode: 0o700 });
    writeFileSync(this.log, '');
    if (this.account.uid !== undefined)
      for (const path of [folder, this.log]) chownSync(path, this.account.uid, this.account.gid);
    const args = ['-D', join(folder, 'data'), '-U', 'postgres', '-A', 'trust', '--no-sync', '--locale=C.UTF-8'];
    execFileSync(join(programs(), 'initdb'), args, { ...this.account, cwd: folder, stdio: 'ignore' });
  }

  get url() {
    return `postgres://cdp@/cdp?host=${encodeURIComponent(this.folder)}`;
  }

  /** A few lines of SQL as the superuser. */
  async sql(...statements) {
    const client = new pg.Client({ host: this.folder, user: 'postgres', database: 'postgres' });
    await client.connect();
    try {
      for (const statement of statements) await client.query(statement);
    } finally {
      await client.end();
    }
  }

  async start() {
    const args = ['-D', join(this.folder, 'data'), ...this.settings.flatMap((setting) => ['-c', setting])];
    const options = { env: { PATH: process.env.PATH, LC_ALL: 'C.UTF-8' }, cwd: this.folder, account: this.account };
    this.child = start(join(programs(), 'postgres'), args, this.log, options);
    await ready(this.child, this.log, () => this.sql('SELECT 1'));
  }

  /** The role and the database that the service is given. */
  prepare() {
    return this.sql('CREATE ROLE cdp LOGIN CREATEDB CREATEROLE', 'CREATE DATABASE cdp OWNER cdp');
  }

  /** Like a crash: clients get no message. */
  async kill() {
    await this.#end('SIGQUIT');
  }

  async remove() {
    await this.#end('SIGINT');
    rmSync(this.folder, { recursive: true, force: true });
  }

  async #end(signal) {
    const { child } = this;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    process.kill(child.pid, signal);
    await ended;
  }
}
