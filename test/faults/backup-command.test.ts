/** The command that runs after a scheduled backup (setting backup-command): what hangs, fails or floods ends, with all of its children. */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, it } from 'vitest';
import { runCommand } from '../../src/scheduled-backups.js';
import { endEverything, eventually, newFolder, preparedDataDir, runProgram, startServe } from '../support/program.js';

afterAll(endEverything);

const never = new AbortController().signal;

/** @returns what went wrong; null: nothing */
const run = (command: string, folder: string, { next = null as Date | null, signal = never } = {}) =>
  runCommand(command, { folder, next }, signal).then(
    () => null,
    (error: Error) => error.message,
  );

/** An orphan that has ended stays a zombie where nothing collects it. */
const isRunning = async (pid: number): Promise<boolean> =>
  !/^(?:|.*\) Z .*)$/s.test(await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => ''));

/** The process ids that commands have written. */
const pidsIn = async (folder: string): Promise<number[]> =>
  (await readFile(join(folder, 'pids'), 'utf8').catch(() => '')).split('\n').filter(Boolean).map(Number);

const ended = (folder: string) =>
  eventually('all processes of the command have ended', async () => {
    const pids = await pidsIn(folder);
    return pids.length > 0 && !(await Promise.all(pids.map(isRunning))).includes(true);
  });

/** Two processes that ignore a request to end; one has left the group, as a daemon does. */
const STUBBORN = `trap '' TERM; echo $$ >> "$CDP_PIDS"; sh -c 'trap "" TERM; echo $$ >> "$CDP_PIDS"; sleep 600' & sleep 600; sleep 600; :`;
const stubborn = (folder: string) => STUBBORN.replaceAll('$CDP_PIDS', join(folder, 'pids'));

describe('a command', () => {
  it('has the folder as its last argument, and none of the secrets', async () => {
    const folder = await newFolder();
    process.env['CDP_SECRET'] = 'not for children';
    const seen = join(folder, 'seen');
    expect(await run(`sh -c 'echo "\${CDP_SECRET-none} $1" > ${seen}' sh`, folder)).toBeNull();
    delete process.env['CDP_SECRET'];
    expect(await readFile(seen, 'utf8')).toBe(`none ${folder}\n`);
  });

  it('that fails is named with its exit code and the end of what it said', async () => {
    const folder = await newFolder();
    expect(await run('echo first; echo "no space" >&2; exit 3; :', folder)).toBe(
      'The backup is made, but backup-command failed: it ended with exit code 3\nfirst\nno space',
    );
    expect(await run('no-such-program', folder)).toMatch(/exit code 127\n.*no-such-program.*not found/);
    expect(await run('kill -9 $$; :', folder)).toMatch(/it ended with SIGKILL/);
  });

  it('that prints 1 GiB needs no memory for it', async () => {
    const folder = await newFolder();
    const before = process.memoryUsage().rss;
    let most = 0;
    const watch = setInterval(() => (most = Math.max(most, process.memoryUsage().rss)), 20);
    const failure = await run('head -c 1073741824 /dev/zero | tr "\\0" x; echo end; exit 1; :', folder);
    clearInterval(watch);
    expect(failure?.length).toBeLessThan(3_000);
    expect(failure).toMatch(/xend$/);
    console.log(`1 GiB of output: ${Math.round((most - before) / 1024 / 1024)} MiB more memory`);
    expect(most - before).toBeLessThan(300 * 1024 * 1024);
  });
});

describe('a command that hangs is ended, with its children,', () => {
  it('and has failed even if it then says that all is well', async () => {
    const next = new Date();
    expect(await run(`trap 'exit 0' TERM; sleep 600 & wait; :`, await newFolder(), { next })).toMatch(
      /next backup is due/,
    );
  });

  it('when the next backup is due', async () => {
    const folder = await newFolder();
    const failure = await run(stubborn(folder), folder, { next: new Date(Date.now() + 1_000) });
    expect(failure).toMatch(/^The backup is made, but backup-command failed: the next backup is due/);
    await ended(folder);
  });

  it('when the service stops, also if a child that left its group keeps its output open', async () => {
    const folder = await newFolder();
    const stop = new AbortController();
    const failure = run(
      `setsid sh -c 'echo $$ >> ${join(folder, 'away')}; exec sleep 600' & ${stubborn(folder)}`,
      folder,
      {
        signal: stop.signal,
      },
    );
    await eventually('it runs', async () => existsSync(join(folder, 'away')) && (await pidsIn(folder)).length === 2);
    stop.abort();
    expect(await failure).toMatch(/the service was stopped/);
    await ended(folder);
    process.kill(Number(await readFile(join(folder, 'away'), 'utf8')), 'SIGKILL');
  });
});

it('a service ends while its command hangs, and the backup is whole', async () => {
  const [dataDir, folder] = [await preparedDataDir(), await newFolder()];
  const target = join(folder, 'target');
  const settings = ['--backup-to', target, '--backup-at', '* * * * * *', '--backup-command', stubborn(folder)];
  const service = await startServe(['--data-dir', dataDir, ...settings]);
  await eventually('the command runs', async () => (await pidsIn(folder)).length === 2);
  // The next backup of this schedule is due within a second, so it is ended for one reason or the other.
  await sleep(100);
  expect((await service.end()).code).toBe(0);
  await ended(folder);
  const { code, stderr } = await runProgram(['backup', 'verify', target]);
  expect(code, stderr).toBe(0);
});
