/** `cdp feed` and `cdp changes`, each run as a process. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { changesIn } from '../../src/cli/remote/changes.js';
import { person, type Person } from '../support/cdp.js';
import { endEverything, eventually } from '../support/program.js';
import { startOwnService, type TestProject, type TestService } from '../support/service.js';

let service: TestService;
let project: TestProject;
let ada: Person;
beforeAll(async () => {
  service = await startOwnService();
  project = await service.project();
  await project.rows('CREATE TABLE customers (id int PRIMARY KEY, email text)');
  await project.rows('CREATE TABLE notes (text text)');
  ada = await person({ CDP_URL: service.url, CDP_TOKEN: project.token });
});
afterAll(async () => {
  await endEverything();
  await service.close();
});

const feed = async (...words: string[]): Promise<string[]> =>
  (await ada.output('feed', ...words)).split('\n').slice(0, -1);

const json = (line: string): unknown => JSON.parse(line);
const linesOf = (text: string): string[] => text.split('\n').slice(0, -1);

describe('works', () => {
  it('turns the feed on with the defaults, shows it, changes it and turns it off', async () => {
    expect(await feed()).toEqual(['The feed is off']);
    const on = await feed('on');
    expect(on.slice(0, 3)).toEqual([
      'The feed is on',
      'tables: all, also those made later',
      'no old: updates and deletes have the key only',
    ]);
    expect(on).toContain('customers: all changes');
    expect(on).toContain('notes: inserts and truncates only: it has no key');
    const options = ['--tables', 'customers', '--old', '--retention-hours', '5', '--retention-mib', '20'];
    expect(await feed('on', ...options)).toEqual(
      expect.arrayContaining(['tables: customers', 'customers: all changes, with old rows']),
    );
    expect(json(await ada.output('feed', 'show', '--json'))).toMatchObject({
      feed: { tables: ['customers'], old: true, retention_hours: 5, retention_mib: 20 },
    });
    expect(await feed('on', '--tables', 'custmers')).toContain(
      'custmers: no such table; its changes are kept once it is made',
    );
    expect(await feed('off')).toEqual(['The feed is off']);
    await feed('on');
  });

  it('prints a snapshot, and from its cursor the changes as they came, to the last digit', async () => {
    await project.rows(`INSERT INTO customers VALUES (1, 'ada')`);
    const printed = await eventually('the feed is known to be on', async () => {
      const { code, stdout } = await ada.run(['changes', '--snapshot', 'customers']);
      return code === 0 && stdout;
    });
    const [head = '', ...rows] = linesOf(printed);
    const { cursor } = json(head) as { cursor: string };
    expect(rows.map(json)).toEqual([{ id: 1, email: 'ada' }]);
    await project.rows('CREATE TABLE "}{" (id int PRIMARY KEY, j json)');
    const text = String.raw`{"a": "\"}{\\", "n": 1.000000000000000000001}`;
    await project.rows('INSERT INTO "}{" VALUES (1, $1)', [text]);
    await project.rows('DELETE FROM customers');
    const { stdout, stderr } = await ada.run(['changes', '--after', cursor]);
    expect(linesOf(stdout).map((line) => (json(line) as { op: string }).op)).toEqual(['schema', 'insert', 'delete']);
    expect(stdout).toContain('1.000000000000000000001');
    const last = (json(linesOf(stdout)[2] ?? '') as { cursor: string }).cursor;
    expect(stderr).toContain(`Go on with --after ${last}`);
    const one = await ada.output('changes', '--after', cursor, '--tables', 'customers', '--limit', '1');
    expect(linesOf(one)).toEqual([linesOf(stdout)[2]]);
    const mistaken = await ada.run(['changes', '--after', cursor, '--tables', 'custmers,customers']);
    expect(linesOf(mistaken.stderr)[0]).toBe('Warning: the feed has no table "custmers" now');
  });

  it('follows changes until it is interrupted, and ends cleanly', async () => {
    const following = ada.start(['changes', '--follow', '--tables', 'customers']);
    for (let n = 10; linesOf(following.output()).length < 3; n++) {
      await project.rows('INSERT INTO customers VALUES ($1)', [n]);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    const { code, stdout, stderr } = await following.end('SIGINT');
    expect([code, stderr]).toEqual([0, '']);
    const ids = linesOf(stdout).map((line) => (json(line) as { record: { id: number } }).record.id);
    expect(ids).toEqual(ids.map((_, i) => (ids[0] ?? 0) + i));
  });

  it('splits pages whatever is in their texts', () => {
    const changes = [{ a: '}{"\\' }, { b: ['{', { c: '\\"}' }] }, {}];
    const page = JSON.stringify({ success: true, message: '3 changes', changes, cursor: 'c' });
    expect(changesIn(page).map(json)).toEqual(changes);
    expect(changesIn('{"success":true,"message":"0 changes","changes":[],"cursor":"c"}')).toEqual([]);
  });
});

describe('refuses', () => {
  it('other words, changes after nothing, and a cursor that has expired, with how to go on', async () => {
    for (const words of [
      ['feed', 'of'],
      ['feed', 'on', '--retention-hours', 'x'],
      ['changes'],
      ['changes', '--follow', '--snapshot', 'a'],
    ])
      expect(await ada.run(words)).toMatchObject({ code: 2, stdout: '' });
    const { code, stderr } = await ada.run(['changes', '--follow', '--after', '00000000.1.0']);
    expect(code).toBe(1);
    expect(stderr).toContain('cursor_expired');
    expect(stderr).toContain('/api/cdp/changes/snapshot');
  });
});
