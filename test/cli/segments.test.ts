/** `cdp segment` and `cdp query`: each command run as a process. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { person, type Person } from '../support/cdp.js';
import { endEverything } from '../support/program.js';
import { startTestService, type TestProject, type TestService } from '../support/service.js';

let service: TestService;
let project: TestProject;
let ada: Person;
let runner: Person;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  await project.rows(
    "CREATE TABLE orders (customer text, zip text, total bigint); INSERT INTO orders VALUES ('ada', '10115', 9007199254740993), ('joan', '20095', 2)",
  );
  ada = await person({ CDP_URL: service.url, CDP_TOKEN: project.token });
  runner = await person({ CDP_URL: service.url, CDP_TOKEN: await project.tokenWith('queries:run') });
});
afterAll(async () => {
  await endEverything();
  await service.close();
});

const segment = (...words: string[]): Promise<string> => ada.output('segment', ...words);
const inFolder = (name: string): string => join(ada.folder, name);
const query = (...words: string[]): Promise<string> => ada.output('query', ...words);

describe('works', () => {
  it('saves, lists, runs, forces, shows, pauses, resumes and deletes a segment', async () => {
    expect(await segment('list')).toBe('No segments yet\n');
    const saved = await segment(
      ...['save', 'buyers', 'SELECT customer AS key FROM orders', '--every', '1h', '--max-change', '20'],
    );
    expect(saved).toMatch(/^Segment buyers saved, at most 20 % change; next run /);
    expect(await segment('members', 'buyers', '--format', 'csv')).toBe('key,entered_at\n');
    expect(await segment('run', 'buyers', '--dry-run')).toMatch(/^2 changes\. Everything was rolled back\n/);
    expect(await segment('run', 'buyers')).toMatch(/^Segment buyers has run: 2 changes, in \d+ ms\n$/);
    await project.rows("DELETE FROM orders WHERE customer = 'joan'");
    const { code, stderr } = await ada.run(['segment', 'run', 'buyers']);
    expect(code).not.toBe(0);
    expect(stderr).toContain('Of 2 members 1 would leave and 0 enter');
    expect(await segment('run', 'buyers', '--force')).toContain('has run: 1 change');
    expect(await segment('list')).toMatch(/buyers +\| every 1h \| .* \| ok\n$/);
    const shown = await segment('show', 'buyers');
    expect(shown).toContain('buyers: every 1h, at most 20 % change; next run');
    expect(shown).toContain('sql_error: Of 2 members 1 would leave and 0 enter');
    expect(await segment('pause', 'buyers')).toBe('Segment buyers paused\n');
    expect(await segment('resume', 'buyers')).toContain('Segment buyers resumed; next run');
    expect(await segment('delete', 'buyers')).toBe('Segment buyers deleted\n');
    expect(await segment('list')).toBe('No segments yet\n');
  });

  it('prints members, and writes them to files', async () => {
    await segment('save', 'all', 'SELECT i AS key FROM generate_series(1, 1001) i', '--every', '1h');
    await segment('run', 'all');
    const lines = (await segment('members', 'all')).split('\n');
    expect(lines[2]).toMatch(/^1 +\| \d{4}-/);
    expect(lines.at(-2)).toBe('(the first 1,000 rows; all with -o FILE)');
    const [csv, parquet] = [inFolder('all.csv'), inFolder('all.parquet')];
    expect(await segment('members', 'all', '-o', csv)).toMatch(/^1,001 rows in /);
    expect((await readFile(csv, 'utf8')).split('\n')).toHaveLength(1003);
    await segment('members', 'all', '-o', parquet);
    expect((await readFile(parquet)).subarray(0, 4).toString()).toBe('PAR1');
  });

  it('saves, lists, shows, runs and deletes a query', async () => {
    expect(await query('list')).toBe('No saved queries yet\n');
    const sql = 'SELECT customer, total FROM orders WHERE zip = $1 AND total >= $2';
    const saved = await query(
      'save',
      'of-zip',
      sql,
      '--param',
      'zip=TEXT',
      '--param',
      'least=integer',
      '--description',
      'By zip',
    );
    expect(saved).toBe('Query of-zip saved\n');
    expect(await query('list')).toMatch(/of-zip \| zip TEXT, least INTEGER \| .* \| By zip/);
    expect(await query('show', 'of-zip')).toContain(`Parameters: zip TEXT, least INTEGER\n\n${sql}\n`);
    const values = ['--param', 'zip=10115', '--param', 'least=9007199254740993'];
    expect(await query('run', 'of-zip', ...values)).toBe('customer,total\nada,9007199254740993\n');
    expect(await query('run', 'of-zip', ...values, '--table')).toContain('ada      | 9007199254740993');
    expect(await query('run', 'of-zip', ...values, '--json')).toMatch(/"rows":\[\{"customer":"ada"/);
    // Who may only run it does not learn its types.
    const quoted = ['--param', 'zip="10115"', '--param', 'least=null'];
    expect(await runner.output('query', 'run', 'of-zip', ...quoted)).toBe('customer,total\n');
    await query('save', 'touch', 'UPDATE orders SET zip = zip', '--writes');
    expect(await ada.run(['query', 'run', 'touch'])).toMatchObject({
      ...{ code: 0, stdout: '', stderr: 'Query touch has run, and returns no rows\n' },
    });
    await query('delete', 'touch');
    expect(await query('delete', 'of-zip')).toBe('Query of-zip deleted\n');
    expect(await query('list')).toBe('No saved queries yet\n');
  });
});

describe('refuses', () => {
  it('what is missing or wrong', async () => {
    await query('save', 'one', 'SELECT $1', '--param', 'n=INTEGER');
    for (const [words, message] of [
      [['segment', 'save', 'x', '--every', '1h'], 'Give the SQL'],
      [['segment', 'save', 'x', 'SELECT 1 AS key', '--every', '1h', '--max-change', 'all'], 'Expected a percentage'],
      [['segment', 'save', 'x', 'DELETE FROM orders', '--every', '1h'], 'must be one query'],
      [['segment', 'members', 'missing'], 'no segment "missing"'],
      [['segment', 'members', 'missing', '-o', 'missing.csv'], 'no segment "missing"'],
      [['query', 'save', 'x', 'SELECT 1', '--param', 'n=date'], 'Expected NAME=TYPE'],
      [['query', 'show', 'missing'], 'no saved query "missing"'],
      [['query', 'run', 'one'], '"n" is missing'],
      [['query', 'run', 'one', '--param', 'n=x'], '"n" must be a whole number'],
      [['query', 'run', 'one', '--param', 'n=1', '--param', 'n=2'], 'two values'],
    ] as const) {
      const { code, stderr } = await ada.run(words);
      expect(code, words.join(' ')).not.toBe(0);
      expect(stderr).toContain(message);
    }
  });
});
