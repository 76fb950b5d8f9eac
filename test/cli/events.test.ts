/** `cdp events`: shows, turns on and turns off the tracking API of a project, each run as a process. */
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
  ada = await person({ CDP_URL: service.url, CDP_TOKEN: project.token });
});
afterAll(async () => {
  await endEverything();
  await service.close();
});

const events = async (...words: string[]): Promise<string[]> =>
  (await ada.output('events', ...words)).split('\n').slice(0, -1);

describe('works', () => {
  it('turns events on with the defaults, shows them, changes them and turns them off', async () => {
    expect(await events()).toEqual(['Events are off']);
    const defaults = [
      'Events are on',
      'mode columns: each property is a column',
      'schema closed: keys of web pages make no tables or columns',
      'ip: the address of the sender is stored',
    ];
    expect(await events('on')).toEqual(defaults);
    expect(await events()).toEqual(defaults);
    expect(await project.rows(`SELECT to_regclass('tracks')::text AS t`)).toEqual([{ t: 'tracks' }]);
    expect(await events('on', '--mode', 'json', '--schema', 'open', '--no-ip')).toEqual([
      'Events are on',
      'mode json: properties stay together, as JSONB',
      'schema open: keys of web pages make tables and columns',
      'no ip: the address of the sender is not stored',
    ]);
    expect(JSON.parse(await ada.output('events', '--json'))).toEqual({
      events: { mode: 'json', schema: 'open', ip: false },
    });
    expect(await events('off')).toEqual(['Events are off']);
    expect((await project.call('GET', '/api/cdp/events')).body).toMatchObject({ events: null });
  });
});

describe('refuses', () => {
  it('other words and values, and a token that may not', async () => {
    for (const words of [['of'], ['on', '--mode', 'rows'], ['on', '--schema', 'ajar'], ['off', 'now']])
      expect(await ada.run(['events', ...words])).toMatchObject({ code: 2, stdout: '' });
    const reader = await person({ CDP_URL: service.url, CDP_TOKEN: await project.tokenWith('schema:read') });
    expect(await reader.output('events')).toBe('Events are off\n');
    const refused = await reader.run(['events', 'on']);
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toContain('schema:write');
  });

  it('to take over a table of the project that is another one, which it names', async () => {
    const other = await service.project();
    await other.rows('CREATE TABLE pages (id int PRIMARY KEY)');
    const owner = await person({ CDP_URL: service.url, CDP_TOKEN: other.token });
    const { code, stderr } = await owner.run(['events', 'on']);
    expect(code).not.toBe(0);
    expect(stderr).toContain('Table "pages": column "id"');
  });
});
