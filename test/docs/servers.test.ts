/**
 * A day of an operator in docs/servers.md: its commands, run one after the other against two real servers, print what
 * the page shows.
 */
import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type AddedServer, startAddedServer } from '../support/added-server.js';
import { makeFolder } from '../support/folder.js';
import { endEverything, eventually, preparedDataDir, type RunningService, startServe } from '../support/program.js';
import { debianMajors } from '../support/throwaway-postgres.js';
import { blocks, read, root } from './markdown.js';

const [, rest = ''] = read('docs/servers.md').split('## Operating two more servers for a day\n');
const day = blocks(rest.split('\n## ', 1)[0] ?? '').map(({ text }) => text.split('\n').filter((line) => line !== ''));

/** Backups need the client programs, which Debian's packages of the server bring. */
describe.runIf(debianMajors().length > 0)("an operator's day", () => {
  const folder = makeFolder('cdp-day-');
  let servers: AddedServer[];
  let service: RunningService;
  let dataDir: string;

  beforeAll(async () => {
    const durable = ['fsync=on', 'full_page_writes=on'];
    servers = [await startAddedServer(undefined, durable), await startAddedServer(undefined, durable)];
    dataDir = await preparedDataDir();
    service = await startServe(['--data-dir', dataDir]);
    for (const name of ['bin', 'backups']) mkdirSync(join(folder, name));
    for (const [i, { url }] of servers.entries()) writeFileSync(join(folder, `eu-${i + 1}.url`), `${url}\n`);
    const cdp = join(folder, 'bin/cdp');
    writeFileSync(
      cdp,
      `#!/bin/sh\nexec '${process.execPath}' '${join(root, 'dist/cli/bin.js')}' "$@" --data-dir '${dataDir}'\n`,
    );
    chmodSync(cdp, 0o755);
  });
  afterAll(async () => {
    await endEverything();
    await Promise.all(servers.map((server) => server.close()));
    rmSync(folder, { recursive: true, force: true });
  });

  /** As it stands on the page, but for the places on this machine. */
  async function run(line: string): Promise<void> {
    const [command = '', said = ''] = line.split(/ +# -> /);
    const here = command
      .replace('/etc/cdp/', `${folder}/`)
      .replace('/backups/', `${folder}/backups/`)
      .replace('localhost:8080', service.url);
    const env = { PATH: `${join(folder, 'bin')}:${process.env.PATH ?? ''}` };
    const { stdout } = await promisify(execFile)('sh', ['-ec', here], { cwd: folder, env });
    if (said === '') return;
    const words = said.split(' ');
    const shows = (printed: string) => words.every((word) => printed.includes(word));
    expect(stdout.split('\n').filter(shows), `${line}\n${stdout}`).not.toEqual([]);
  }

  const runAll = async (lines: readonly string[] = []): Promise<void> => {
    for (const line of lines) await run(line);
  };

  it('adds two servers and replaces one of them', () => runAll(day[0]));

  it('loses a server', async () => {
    await servers[0]?.kill();
    await eventually('it is missed', async () =>
      (await (await fetch(`${service.url}/readyz`)).text()).includes('eu-1'),
    );
    await runAll(day[1]);
  });

  it('gets the server back', async () => {
    await servers[0]?.restart();
    await runAll(day[2]);
    expect(day).toHaveLength(3);
  });
});
