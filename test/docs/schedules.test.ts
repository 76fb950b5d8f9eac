/** docs/schedules.md: its commands do what it says. */
import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { endEverything, newFolder } from '../support/program.js';
import { startTestService, type TestProject, type TestService } from '../support/service.js';
import { blocks, read, root } from './markdown.js';

const all = blocks(read('docs/schedules.md'));
const shell = all.filter(({ language }) => language === 'sh').map(({ text }) => text);
const printed = all.filter(({ language }) => language === 'text').map(({ text }) => text.trim());

let service: TestService;
let project: TestProject;
let env: Record<string, string>;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  const bin = join(await newFolder(), 'bin');
  mkdirSync(bin);
  const script = `#!/bin/sh\nexec ${process.execPath} ${join(root, 'dist/cli/bin.js')} "$@"\n`;
  writeFileSync(join(bin, 'cdp'), script, { mode: 0o755 });
  const { token } = project;
  env = { PATH: `${bin}:${process.env.PATH}`, HOME: bin, CDP_URL: service.url, CDP_TOKEN: token };
  Object.assign(env, { URL: service.url, TOKEN: token });
});
afterAll(async () => {
  await endEverything();
  await service.close();
});

const run = async (text = ''): Promise<string> => (await promisify(execFile)('sh', ['-euc', text], { env })).stdout;

it('deletes old rows, after a look at what it would do', async () => {
  await project.rows(
    `CREATE TABLE events (name text, received_at timestamptz);
     INSERT INTO events VALUES ('old', now() - interval '91 days'), ('old', '2020-01-01'), ('new', now());
     CREATE MATERIALIZED VIEW daily_orders AS SELECT 1 AS n`,
  );
  const [save, look, first, others, put] = shell;
  const time = /\d{4}-\d\d-\d\dT0[12]:30:00.000Z/;
  expect((await run(save)).trim().replace(time, 'T')).toBe(printed[0]?.replace(time, 'T'));
  expect((await run(look)).trim()).toBe(printed[1]);
  expect(await run(first)).toMatch(/has run: 2 rows[^]*retention[^]*ok\n$/);
  expect(await project.rows('SELECT name FROM events')).toEqual([{ name: 'new' }]);
  await run(others);
  for (const name of ['refresh', 'tidy']) expect(await run(`cdp schedule run ${name}`)).toContain('has run');
  expect(JSON.parse(await run(put))).toMatchObject({ success: true, schedule: { cron: '30 3 * * *' } });
});
