/** A primary and its standby, for a test to kill, suspend and promote. */
import { chmod, chown, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type pg from 'pg';
import { type Account, accountFor, run } from '../../../src/embedded/accounts.js';
import { SUPERUSER } from '../../../src/embedded/postgres-config.js';
import { isAlive, processes } from '../../../src/embedded/proc.js';
import { makeFolder } from '../../support/folder.js';
import { connected } from '../../support/postgres.js';
import { eventually, freePort } from '../../support/program.js';
import { debianMajors, PASSWORD, startThrowaway, type ThrowawayServer } from '../../support/throwaway-postgres.js';

export interface Cluster {
  /** Both servers, as a URL names them; the first is the primary until {@link promote}. */
  readonly hosts: string;
  readonly primary: () => ThrowawayServer;
  /** The second server. */
  readonly standby: () => ThrowawayServer;
  /** Signals every process of the first server. */
  signal(name: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT', server?: ThrowawayServer): Promise<void>;
  /** Starts the second server again after it was killed. */
  restartStandby(): Promise<void>;
  /** Makes the second server the primary. */
  promote(): Promise<void>;
  /** Starts the first server, which was killed, as a standby. */
  demote(): Promise<void>;
  close(): Promise<void>;
}

const NAME = 'standby';

/** @param standbySettings `name=value`; if there are any, the primary does not wait for its standby */
export async function startCluster(standbySettings: readonly string[] = []): Promise<Cluster> {
  const folder = makeFolder('cdp-cluster-');
  await chmod(folder, 0o711);
  const [first, second] = [join(folder, 'first'), join(folder, 'second')];
  const ports = { first: await freePort(), second: await freePort() };
  const common = { major: debianMajors()[0] ?? 18 };
  const startFirst = () => startThrowaway(first, { ...common, port: ports.first });

  let one = await startFirst();
  await one.stop('fast');
  await copyData(first, second, await accountFor(first));
  await follow(second, ports.first);
  one = await startFirst();
  const startSecond = () => startThrowaway(second, { ...common, port: ports.second, settings: standbySettings });
  let two = await startSecond();
  if (standbySettings.length === 0) await makeSynchronous(one);

  let primary = one;
  return {
    hosts: `127.0.0.1:${ports.first},127.0.0.1:${ports.second}`,
    primary: () => primary,
    standby: () => two,
    signal: (name, server = one) => signalAll(server.pid, name),
    restartStandby: async () => {
      await eventually('the standby has been reaped', () => Promise.resolve(!isAlive(two.pid)));
      two = await startSecond();
    },
    promote: async () => {
      await connected(two.connection, (client) => client.query('SELECT pg_promote()'));
      primary = two;
    },
    demote: async () => {
      await follow(first, ports.second);
      // Postgres takes a zombie for a server that runs.
      await eventually('the former primary has been reaped', () => Promise.resolve(!isAlive(one.pid)));
      one = await startFirst();
    },
    close: async () => {
      // One that was killed cannot be stopped.
      await Promise.allSettled([one.stop(), two.stop()]);
      await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
    },
  };
}

/** Of a server that is stopped. */
async function copyData(from: string, to: string, account: Account): Promise<void> {
  await mkdir(to, { mode: 0o700 });
  await chown(to, account.uid, account.gid);
  const { code, output } = await run(account, '/bin/cp', ['-a', join(from, 'data'), join(to, 'data')]);
  if (code !== 0) throw new Error(output);
}

/** Makes the server of a folder, which is stopped, a standby of the one at the port. */
async function follow(folder: string, port: number): Promise<void> {
  const source = `host=127.0.0.1 port=${port} user=${SUPERUSER} password=${PASSWORD} application_name=${NAME}`;
  await writeFile(join(folder, 'data/postgresql.auto.conf'), `primary_conninfo = '${source}'\n`);
  await writeFile(join(folder, 'data/standby.signal'), '', { mode: 0o644 });
}

const makeSynchronous = ({ connection }: ThrowawayServer): Promise<unknown> =>
  connected(connection, async (client) => {
    await client.query(`ALTER SYSTEM SET synchronous_standby_names = '${NAME}'`);
    await client.query('SELECT pg_reload_conf()');
    await eventually('the standby is synchronous', () => isSynchronous(client));
  });

async function isSynchronous(client: pg.Client): Promise<boolean> {
  const { rows } = await client.query(`SELECT FROM pg_stat_replication WHERE sync_state = 'sync'`);
  return rows.length === 1;
}

async function signalAll(postmaster: number, name: NodeJS.Signals): Promise<void> {
  const all = (await processes()).filter(({ pid, parent }) => pid === postmaster || parent === postmaster);
  for (const { pid } of all) if (isAlive(pid)) process.kill(pid, name);
}
