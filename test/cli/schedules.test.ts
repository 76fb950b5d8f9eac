/** `cdp schedule`: each command run as a process. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { person, type Person } from '../support/cdp.js';
import { endEverything } from '../support/program.js';
import { startTestService, type TestProject, type TestService } from '../support/service.js';

let service: TestService;
let project: TestProject;
let ada: Person;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  await project.table('events', { name: 'TEXT' });
  ada = await person({ CDP_URL: service.url, CDP_TOKEN: project.token });
});
afterAll(async () => {
  await endEverything();
  await service.close();
});

const schedule = (...words: string[]): Promise<string> => ada.output('schedule', ...words);

describe('works', () => {
  it('saves, lists, runs, shows, pauses, resumes and drops a schedule', async () => {
    expect(await schedule('list')).toBe('No schedules yet\n');
    const saved = await schedule(
      ...['save', 'nightly', "INSERT INTO events (name) VALUES ('n')", '--cron', '0 3 * * *'],
      ...['--time-zone', 'Europe/Berlin', '--timeout', '10m', '--missed', 'skip'],
    );
    expect(saved).toMatch(/^Schedule nightly saved; next run \d{4}-\d\d-\d\dT0[12]:00:00.000Z\n$/);
    expect(await schedule('run', 'nightly', '--dry-run')).toBe(
      '1 row. Everything was rolled back\nevents: 1 inserted, 0 updated, 0 deleted\n',
    );
    expect(await project.rows('SELECT FROM events')).toEqual([]);
    expect(await schedule('run', 'nightly')).toMatch(/^Schedule nightly has run: 1 row, in \d+ ms\n$/);
    expect(await project.rows('SELECT name FROM events')).toEqual([{ name: 'n' }]);
    expect(await schedule('list')).toMatch(/nightly {2}\| 0 3 \* \* \* Europe\/Berlin \| .* \| ok\n$/);
    const shown = await schedule('show', 'nightly');
    expect(shown).toContain('nightly: 0 3 * * * Europe/Berlin, as the writer; next run');
    expect(shown).toContain("INSERT INTO events (name) VALUES ('n')");
    expect(await schedule('pause', 'nightly')).toBe('Schedule nightly paused\n');
    expect(JSON.parse(await schedule('show', 'nightly', '--json'))).toMatchObject({
      ...{ paused: true, timeout_ms: 600_000, missed: 'skip', runs: [{ outcome: 'ok', rows: 1 }] },
    });
    expect(await schedule('resume', 'nightly')).toContain('Schedule nightly resumed; next run');
    expect(await schedule('drop', 'nightly')).toBe('Schedule nightly dropped\n');
    expect(await schedule('list')).toBe('No schedules yet\n');
  });

  it('reads the SQL from a file', async () => {
    const file = await ada.write('refresh.sql', 'SELECT 1;\nSELECT 2');
    await schedule('save', 'of-file', '-f', file, '--every', '15m');
    expect(JSON.parse(await schedule('show', 'of-file', '--json'))).toMatchObject({
      ...{ sql: 'SELECT 1;\nSELECT 2', every: '15m', cron: null },
    });
    expect(await schedule('delete', 'of-file')).toBe('Schedule of-file dropped\n');
  });
});

describe('refuses', () => {
  it('SQL that Postgres cannot parse, and shows its place', async () => {
    const { code, stderr } = await ada.run(['schedule', 'save', 'bad', 'DELETE FORM events', '--every', '1h']);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/\nLINE 1: DELETE FORM events\n {15}\^\n/);
    expect(await schedule('list')).not.toContain('bad');
  });

  it('what is missing or wrong, and a run that fails ends with its error', async () => {
    for (const [words, message] of [
      [['save', 'x', '--every', '1h'], 'Give the SQL'],
      [['save', 'x', 'SELECT 1'], '"cron" or "every" is missing'],
      [['save', 'x', 'SELECT 1', '--cron', 'nonsense'], 'no pattern of times'],
      [['save', 'x', 'SELECT 1', '--cron', '0 3 * * *', '--every', '1h'], 'cannot be used with'],
      [['save', '../x', 'SELECT 1', '--every', '1h'], 'does not match'],
      [['show', 'missing'], 'no schedule "missing"'],
    ] as const) {
      const { code, stderr } = await ada.run(['schedule', ...words]);
      expect(code, words.join(' ')).not.toBe(0);
      expect(stderr).toContain(message);
    }
    await schedule('save', 'failing', 'SELECT 1 / 0', '--every', '1h');
    const { code, stderr } = await ada.run(['schedule', 'run', 'failing']);
    expect(code).not.toBe(0);
    expect(stderr).toContain('division by zero');
  });
});
