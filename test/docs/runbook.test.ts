/** docs/runbook.md has a section for each alert and no others, and its commands run next to a real service. */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  preparedDataDir,
  endEverything,
  projectRoot,
  runProgram,
  startServe,
  superuserOf,
} from '../support/program.js';
import { withClient } from '../postgres-port/connect.js';
import { blocks, read } from './markdown.js';

const page = read('docs/runbook.md');
const all = blocks(page);
const alerts = [...read('deploy/prometheus/alerts.yaml').matchAll(/- alert: (\w+)\n([^]*?)(?=\n\n|$)/g)].map(
  ([, name = '', rule = '']) => ({ name, rule }),
);

it('has a section for each alert, with what you see, why and what to do; each alert names its section', () => {
  const sections = page.split(/^### /m).slice(1);
  expect(sections.map((section) => section.split('\n', 1)[0]).toSorted()).toEqual(
    alerts.map(({ name }) => name).toSorted(),
  );
  for (const section of sections) {
    for (const part of ['You see', 'Why', 'Do']) expect(section).toContain(`**${part}:** `);
    expect(section, 'a command').toMatch(/^```(?:sh|sql)$/m);
  }
  for (const { name, rule } of alerts) expect(rule).toContain(`runbook: docs/runbook.md#${name.toLowerCase()}`);
});

let dataDir: string;
let folder: string;
/** The exit code of each command of ours, with its first words. */
const codes = () => readFileSync(join(folder, 'codes'), 'utf8').trimEnd().split('\n');

beforeAll(async () => {
  dataDir = await preparedDataDir();
  folder = mkdtempSync(join(tmpdir(), 'cdp-runbook-'));
  const program = (name: string, lines: string) =>
    writeFileSync(join(folder, name), `#!/bin/sh\n${lines}\n`, { mode: 0o755 });
  program(
    'cdp',
    `'${process.execPath}' '${projectRoot}/dist/cli/bin.js' "$@"; code=$?; echo "$code $1 $2" >> '${folder}/codes'; exit $code`,
  );
  // There is no systemd here; the log is that of the service.
  program('systemctl', 'echo active');
  program('journalctl', `cat '${folder}/log'`);
});
afterAll(async () => {
  await endEverything();
  rmSync(folder, { recursive: true, force: true });
});

it('has commands that run', async () => {
  const service = await startServe(['--data-dir', dataDir]);
  const cdp = async (...args: string[]) => {
    const { code, stdout, stderr } = await runProgram([...args, '--data-dir', dataDir], { cwd: folder });
    expect(code, stderr).toBe(0);
    return stdout;
  };
  await cdp('project', 'create', 'shop');
  const { token } = JSON.parse(await cdp('token', 'create', '--project', 'shop', '--name', 'runbook', '--json')) as {
    token: string;
  };
  await cdp('backup', 'last-good.cdp');
  writeFileSync(join(folder, 'log'), service.output());
  const path = `${folder}:${process.env['PATH'] ?? ''}`;
  const env = { PATH: path, HOME: folder, TOKEN: token, CDP_BACKUP_TO: join(folder, 'backup') };
  const here = (line: string) =>
    line
      .replace('export CDP_DATA_DIR=/var/lib/cdp', `export CDP_DATA_DIR=${dataDir}`)
      .replace('http://127.0.0.1:8080', service.url);
  const [first, ...others] = all.filter(({ language }) => language === 'sh');
  const settings = here(first?.text ?? '');
  expect(settings).toContain(dataDir);
  expect(settings).toContain(service.url);
  for (const block of others) {
    // What looks for lines in a log may find none.
    const shell = spawn('sh', ['-uc', `${settings}\n${block.text}`], {
      cwd: folder,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const [, stderr] = await Promise.all([text(shell.stdout), text(shell.stderr)]);
    expect(stderr, `line ${block.line}`).not.toMatch(/not found|syntax|unknown|error:|usage/i);
  }
  // The servers of tests are not durable, which is a problem.
  expect(codes().filter((line) => !/^(?:0 |1 (?:doctor|server check) ?$)/.test(line))).toEqual([]);
  expect(codes().length).toBeGreaterThan(20);
});

it('has queries that Postgres takes', async () => {
  const queries = all.filter(({ language }) => language === 'sql');
  expect(queries.length).toBeGreaterThan(2);
  await withClient(superuserOf(dataDir), async (client) => {
    for (const query of queries) await client.query(query.text);
  });
});

it('has no block that is not tested', () => {
  expect(all.filter(({ language }) => language !== 'sh' && language !== 'sql')).toEqual([]);
});
