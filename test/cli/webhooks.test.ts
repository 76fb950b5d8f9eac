/** `cdp webhook …`: manages webhooks of a project, each command run as a process. */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { person, type Person } from '../support/cdp.js';
import { answered, type Endpoint, startEndpoint } from '../support/endpoint.js';
import { endEverything } from '../support/program.js';
import { startOwnService, type TestProject, type TestService } from '../support/service.js';

let service: TestService;
let project: TestProject;
let endpoint: Endpoint;
let ada: Person;
beforeAll(async () => {
  service = await startOwnService({ 'webhook-networks': '127.0.0.1' });
  project = await service.project();
  await project.table('customers', { email: 'TEXT' });
  await project.call('PUT', '/api/cdp/feed', { body: {} });
  project = await project.seenAnew();
  endpoint = await startEndpoint();
  ada = await person({ CDP_URL: service.url, CDP_TOKEN: project.token });
});
afterAll(async () => {
  await endEverything();
  await endpoint.close();
  await service.close();
});

const webhook = (...words: string[]): Promise<string> => ada.output('webhook', ...words);

describe('works', () => {
  it('creates, shows, tests, changes, pauses, resumes, replays, rotates and deletes', async () => {
    expect(await webhook('list')).toBe('No webhooks yet\n');
    const created = await webhook('create', endpoint.url, '--tables', 'customers', '--ops', 'insert,delete');
    const mistaken = await ada.run(['webhook', 'create', endpoint.url, '--tables', 'custmers']);
    expect(mistaken).toMatchObject({ code: 0, stderr: expect.stringContaining('no table "custmers" now') as string });
    await webhook('delete', /^Webhook (\S+)/.exec(mistaken.stdout)?.[1] ?? '');
    const [, id = ''] = /^Webhook (\S+) created\nsecret  whsec_\S{44}\n$/.exec(created) ?? [];
    expect(await webhook('list')).toContain(id);
    const shown = await webhook('show', id);
    for (const line of [
      `url        ${endpoint.url}`,
      'tables     customers',
      'ops        insert, delete',
      'columns    all',
    ])
      expect(shown.split('\n')).toContain(line);
    expect(shown).not.toContain('whsec_');
    expect(await webhook('test', id)).toMatch(/^Confirmed with 204 after \d+ ms\n$/);

    const { cursor } = JSON.parse(await webhook('show', id, '--json')) as { cursor: string };
    await project.rows("INSERT INTO customers (email) VALUES ('a')");
    await vi.waitFor(async () => expect(await webhook('deliveries', id)).toContain('confirmed with 204'), {
      timeout: 60_000,
    });
    expect(await webhook('change', id, '--columns', 'email', '--tables', 'all')).toMatch(
      /tables +all\n.*\ncolumns +email\n/,
    );
    expect(await webhook('pause', id)).toBe(`Webhook ${id} is paused\n`);
    expect(await webhook('resume', id)).toBe(`Webhook ${id} is active\n`);
    const before = endpoint.changes().length;
    expect(await webhook('replay', id, '--from', cursor)).toBe(`Webhook ${id} sends changes after ${cursor} again\n`);
    await vi.waitFor(() => expect(endpoint.changes()).toHaveLength(before + 1), { timeout: 60_000 });
    expect(await webhook('rotate', id, '--previous-hours', '0')).toMatch(
      /the previous one has ended\nsecret {2}whsec_/,
    );

    endpoint.answer = answered(500);
    const failed = await ada.run(['webhook', 'test', id]);
    expect(failed.code).not.toBe(0);
    expect(failed.stdout).toBe('Not confirmed: the answer was 500\n');
    expect(await ada.output('feed', 'off')).toContain(
      '1 webhook will be paused, and can only be replayed from a cursor of a new feed',
    );
    expect(await webhook('delete', id)).toBe(`Webhook ${id} deleted\n`);
    expect(await webhook('list')).toBe('No webhooks yet\n');
  });
});

describe('refuses', () => {
  it('wrong words, URLs and ids, and changes nothing', async () => {
    for (const words of [['create'], ['create', endpoint.url, '--ops', 'upsert'], ['change', 'x'], ['replay', 'x']])
      expect(await ada.run(['webhook', ...words])).toMatchObject({ code: 2, stdout: '' });
    const wrong = await ada.run(['webhook', 'create', 'http://10.0.0.1/']);
    expect(wrong.code).not.toBe(0);
    expect(wrong.stderr).toContain('"url" has no address that the operator allows');
    expect((await ada.run(['webhook', 'show', 'x'])).stderr).toContain('The project has no webhook "x"');
    expect(await webhook('list')).toBe('No webhooks yet\n');
  });
});
