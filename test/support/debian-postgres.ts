/** Servers of the older majors, where the machine has them under Debian's layout. */
import { chown, mkdir, rm, writeFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Account, run } from '../../src/embedded/account.js';
import { HBA, PORT, SUPERUSER } from '../../src/embedded/config.js';
import type { TestServer } from './postgres.js';

/** The majors from 15 to 17 that are installed. 18 is the embedded one. */
export const debianMajors = (): number[] => [15, 16, 17].filter((major) => existsSync(programs(major)));

const programs = (major: number): string => `/usr/lib/postgresql/${major}/bin`;

/** Makes and starts a throw-away server in `folder`, with the same superuser and the same rules of access as ours. */
export async function startDebian(
  major: number,
  folder: string,
  account: Account,
  password: string,
): Promise<TestServer> {
  await mkdir(folder, { mode: 0o700 });
  const passwordFile = join(folder, 'password');
  await writeFile(passwordFile, password);
  for (const path of [folder, passwordFile]) await chown(path, account.uid, account.gid);

  const data = join(folder, 'data');
  const init = ['-D', data, '-U', SUPERUSER, `--pwfile=${passwordFile}`, '--auth=scram-sha-256', '--no-sync'];
  await must(run(account, join(programs(major), 'initdb'), [...init, '--encoding=UTF8', '--locale=C.UTF-8']));
  await rm(passwordFile);
  await writeFile(join(data, 'pg_hba.conf'), HBA);

  const settings = ['fsync=off', 'full_page_writes=off', 'synchronous_commit=off', 'max_connections=120', 'jit=off'];
  const options = [`unix_socket_directories=${folder}`, 'listen_addresses=', ...settings].map(
    (setting) => `-c ${setting}`,
  );
  const log = join(folder, 'log');
  await must(
    run(account, join(programs(major), 'pg_ctl'), ['start', '-w', '-D', data, '-l', log, '-o', options.join(' ')]),
  );
  return { major, connection: { host: folder, port: PORT, user: SUPERUSER, password, database: 'postgres' } };
}

/** Ends it at once; its folder is thrown away. */
export async function stopDebian(major: number, folder: string, account: Account): Promise<void> {
  await must(
    run(account, join(programs(major), 'pg_ctl'), ['stop', '-w', '-m', 'immediate', '-D', join(folder, 'data')]),
  );
}

async function must(result: ReturnType<typeof run>): Promise<void> {
  const { code, output } = await result;
  if (code !== 0) throw new Error(output);
}
