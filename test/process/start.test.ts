/** `cdp serve` from the outside: the first start and what it prints, the second start, and starts that are refused. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { chown, readdir, stat, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { runsAsRoot } from '../../src/embedded/accounts.js';
import {
  endEverything,
  firstToken,
  newDataDir,
  newFolder,
  postmasterOf,
  postmastersIn,
  preparedDataDir,
  projectRoot,
  programFor,
  runProgram,
  type RunningService,
  startServe,
  type Surroundings,
} from '../support/program.js';
import { call } from '../support/service.js';
import { openTerminal } from '../support/terminal.js';

afterAll(endEverything);

/** As `npm start` does: what belongs to a person goes to stdout. */
const UNDER_NPM: Surroundings = { env: { CDP_NPM_START: '1' } };

const TOKEN = /\bcdp_[0-9A-Za-z]{49}\b/g;

/** The commands that a first start prints, as a person would copy them. The token is only in the first line. */
const printedCommands = (output: string): string[] => {
  const [variables = ''] = output.match(/^export URL=\S+ TOKEN=\S+$/m) ?? [];
  return (output.match(/^curl (?:.*\\\n)+.*$/gm) ?? []).map((command) => {
    expect(command).not.toMatch(TOKEN);
    return `${variables}\n${command}`;
  });
};

/** Stands in for curl on a machine that has none: last in the PATH, with the three options that we print. */
const CURL = `#!${process.execPath}
const { argv } = process;
const all = (flag) => argv.flatMap((item, i) => (item === flag ? [argv[i + 1]] : []));
const headers = all('-H').map((line) => line.split(/: (.*)/s, 2));
fetch(argv.find((item) => item.startsWith('http://')), { method: 'POST', headers, body: all('-d')[0] })
  .then((response) => response.text())
  .then((text) => process.stdout.write(text));
`;

async function paste(command: string): Promise<unknown> {
  const folder = await newFolder();
  await writeFile(join(folder, 'curl'), CURL, { mode: 0o755 });
  const PATH = [process.env.PATH, folder].join(delimiter);
  const shell = spawn('sh', ['-c', command], { env: { PATH }, stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  shell.stdout.setEncoding('utf8').on('data', (chunk: string) => void (text += chunk));
  const [code] = (await once(shell, 'close')) as [number];
  expect(code).toBe(0);
  return JSON.parse(text);
}

/** The responses to the commands that a service has printed. */
async function pasteAll(service: RunningService): Promise<unknown[]> {
  const commands = printedCommands(service.output());
  expect(commands).toHaveLength(3);
  const responses: unknown[] = [];
  for (const command of commands) responses.push(await paste(command));
  return responses;
}

const THREE_RESPONSES = [
  { success: true, table: 'customers', columns: ['id', 'email', 'age'] },
  { success: true, inserted_rows: 2 },
  {
    success: true,
    type: 'SELECT',
    rows: [
      { email: 'grace@example.com', age: 45 },
      { email: 'ada@example.com', age: 36 },
    ],
    row_count: 2,
  },
];

async function stopsCleanly(service: RunningService, dataDir: string): Promise<void> {
  const { code } = await service.end();
  expect(code).toBe(0);
  expect(await postmastersIn(dataDir)).toEqual([]);
}

describe('works', () => {
  it('prints a token and three commands that work as printed on the first start under npm, and none later', async () => {
    const dataDir = await newDataDir();
    const first = await startServe(['--data-dir', dataDir], UNDER_NPM);
    expect(new Set(first.output().match(TOKEN)).size).toBe(1);
    expect(await pasteAll(first)).toMatchObject(THREE_RESPONSES);
    expect(first.output()).toContain(`Open ${first.url}/console/ in a browser`);
    expect((await readdir(dataDir)).includes('first-token')).toBe(false);
    await stopsCleanly(first, dataDir);

    const second = await startServe(['--data-dir', dataDir], UNDER_NPM);
    expect(second.output()).not.toMatch(TOKEN);
    expect(second.output()).not.toContain('curl');
    await stopsCleanly(second, dataDir);
  });

  it('writes the token to a file of mode 600 without a terminal, and JSON lines without values to stdout', async () => {
    const dataDir = await newDataDir();
    const service = await startServe(['--data-dir', dataDir]);
    expect((await stat(join(dataDir, 'first-token'))).mode & 0o777).toBe(0o600);
    const token = await firstToken(dataDir);
    const body = { sql: "SELECT 'a customer''s value' AS text" };
    const response = await call(service.url, 'POST', '/api/cdp/sql', {
      token,
      body,
      headers: { 'x-request-id': 'mine' },
    });
    expect(response.status).toBe(200);
    await call(service.url, 'GET', '/nowhere', { token });

    const { stdout, stderr, code } = await service.end();
    expect(code).toBe(0);
    expect(stderr).toContain(join(dataDir, 'first-token'));
    expect(stdout + stderr).not.toMatch(TOKEN);
    expect(stdout).not.toMatch(/customer|nowhere/);
    for (const line of stdout.trim().split('\n')) expect(JSON.parse(line)).toBeTypeOf('object');
    expect(service.log().filter(({ msg }) => msg === 'request')).toMatchObject([
      { method: 'POST', route: '/api/cdp/sql', status: 200, request_id: 'mine', project: 'default' },
      { method: 'GET', status: 404, error: 'not_found' },
    ]);
  });

  it('logs short lines on a terminal, and says where it is, how to stop it and how to create another token', async () => {
    const dataDir = await preparedDataDir();
    const command = [
      process.execPath,
      join(projectRoot, 'dist/cli/bin.js'),
      'serve',
      '--port',
      '0',
      '--data-dir',
      dataDir,
    ];
    const terminal = openTerminal(command, { env: { NO_COLOR: '1' }, columns: 200 });
    const start = await terminal.until('Ctrl-C');
    const url = /Ready at (\S+)/.exec(start)?.[1] ?? '';
    expect(start).toContain(`Data     ${dataDir}`);
    expect(start).toContain(`Token    cdp token create --project NAME --data-dir ${dataDir}`);
    expect((await call(url, 'GET', '/readyz')).status).toBe(200);
    await terminal.until(/^\d\d:\d\d:\d\d GET \/readyz 200 /m);
    terminal.type('\u0003');
    expect(await terminal.ended).toBe(0);
    expect(terminal.raw()).not.toContain('{"level"');
    expect(terminal.raw()).not.toContain('\u001b[3');
  });

  it('accepts a data folder whose path has spaces, umlauts and quotes', async () => {
    const dataDir = await newDataDir(`Büro "Köln" it's`);
    const service = await startServe(['--data-dir', dataDir], UNDER_NPM);
    expect(await pasteAll(service)).toMatchObject(THREE_RESPONSES);
    await stopsCleanly(service, dataDir);
  });

  it('runs as an unprivileged user', async () => {
    const dataDir = await newDataDir();
    const nobody = { uid: 65_534, gid: 65_534 };
    const surroundings = runsAsRoot() ? await programFor(nobody, await newFolder()) : {};
    if (runsAsRoot()) await chown(dirname(dataDir), nobody.uid, nobody.gid);
    const service = await startServe(['--data-dir', dataDir], { ...surroundings, ...UNDER_NPM });
    expect(await pasteAll(service)).toMatchObject(THREE_RESPONSES);
    expect((await stat(join(dataDir, 'postgres'))).uid).toBe(runsAsRoot() ? nobody.uid : process.getuid?.());
    await stopsCleanly(service, dataDir);
  });
});

describe('refuses', () => {
  it('a port in use, with a message, stops Postgres again and does not use up the first token', async () => {
    const dataDir = await newDataDir();
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as { port: number };
    const refused = await runProgram(['serve', '--port', String(port), '--data-dir', dataDir], UNDER_NPM);
    other.close();
    expect(refused.code).toBe(1);
    expect(refused.stderr).toBe(
      `cdp: Port ${port} of 127.0.0.1 is in use by another program; choose one with npm start -- --port PORT\n`,
    );
    expect(refused.stdout).not.toMatch(TOKEN);
    expect(await postmastersIn(dataDir)).toEqual([]);
    const twice = ['--port', String(port), '--pg-port', String(port), '--data-dir', dataDir];
    expect((await runProgram(['serve', ...twice], UNDER_NPM)).stderr).toBe(
      `cdp: --port and --pg-port are both ${port}; choose different ports\n`,
    );

    const service = await startServe(['--data-dir', dataDir], UNDER_NPM);
    expect(await pasteAll(service)).toMatchObject(THREE_RESPONSES);
    await stopsCleanly(service, dataDir);
  });

  it('a second service on the same data folder, without affecting the first', async () => {
    const dataDir = await newDataDir();
    const first = await startServe(['--data-dir', dataDir]);
    const token = await firstToken(dataDir);
    const postmaster = await postmasterOf(dataDir);
    const second = await runProgram(['serve', '--port', '0', '--data-dir', dataDir]);
    expect(second.code).toBe(1);
    expect(second.stderr).toContain('Another service is running on this data folder');
    expect(await postmasterOf(dataDir)).toBe(postmaster);
    expect((await call(first.url, 'GET', '/readyz')).status).toBe(200);
    const body = { sql: 'SELECT 1 AS n' };
    expect((await call(first.url, 'POST', '/api/cdp/sql', { token, body })).body.rows).toEqual([{ n: 1 }]);
    await stopsCleanly(first, dataDir);
  });

  it.each([
    ['where the system lets nobody make one', '/proc/cdp/data', 'The folder /proc/cdp/data cannot be created: ENOENT'],
    ['below a file', '/dev/null/data', 'The folder /dev/null/data cannot be created: ENOTDIR'],
    ['that is a file', '/dev/null', 'The folder /dev/null cannot be created: EEXIST'],
  ])('a data folder %s', async (_where, dataDir, message) => {
    const { code, stderr } = await runProgram(['serve', '--port', '0', '--data-dir', dataDir]);
    expect(stderr).toContain(message);
    expect(code).toBe(1);
  });

  it.each([
    ['an unknown flag', ['serve', '--prot', '1'], '--prot'],
    ['an unknown command', ['sevre'], 'sevre'],
    ['a port that is none', ['serve', '--port', 'http'], '--port: must be a whole number from 0 to 65535'],
    ['a log level that is none', ['serve', '--log-level', 'loud'], '--log-level: must be one of'],
    ['a flag without its value', ['serve', '--port'], '--port'],
    ['a settings file that is not there', ['serve', '--config', '/nowhere/cdp.json'], '/nowhere/cdp.json'],
    ['half of the JWT settings', ['serve', '--jwt-issuer', 'me'], 'or none'],
    ['more reserved than running', ['serve', '--project-reserved', '8'], 'project-reserved must be less'],
    ['a database without a secret', ['serve', '--database-url', 'postgres://u:hidden@h/d'], 'set CDP_SECRET'],
    ['a short secret', ['serve', '--secret', 'too short'], 'at least 32 characters'],
  ])('%s, with exit code 2 and a message', async (_what, args, message) => {
    const dataDir = await newDataDir();
    const { code, stderr, stdout } = await runProgram(args, { env: { CDP_DATA_DIR: dataDir } });
    expect(code).toBe(2);
    expect(stderr).toContain(message);
    expect(stdout + stderr).not.toMatch(/hidden|too short|^ +at /m);
    await expect(stat(dataDir)).rejects.toThrow('ENOENT');
  });
});
