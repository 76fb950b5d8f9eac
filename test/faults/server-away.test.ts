/**
 * An added server hangs or dies, and comes back: requests of its projects are refused at once, and nobody else notices.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BY_ITSELF } from '../../src/contract/audit.js';
import type { Placement } from '../../src/tenancy/placement.js';
import { type AddedServer, startAddedServer, variableWith } from '../support/added-server.js';
import { connected } from '../support/postgres.js';
import {
  expectFailure,
  inProject,
  startOwnService,
  startTestService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../support/service.js';
import { startClients } from './support/clients.js';
import { Ledger, LEDGER_TABLE, UNTRUE } from './support/ledger.js';

/** What clients may be told while the server is away or on its way back. */
const TRUE_RESPONSES = ['201', '200', 'database_unavailable', 'outcome_unknown', 'overloaded', 'request_in_flight'];

/** Requests one after the other: where each waits for the server, they take some minutes. */
const IN_TURN = 50;

const FAULTS: Record<string, { begin(server: AddedServer): Promise<void>; end(server: AddedServer): Promise<void> }> = {
  'all its processes stand still': {
    begin: (server) => server.signal('SIGSTOP', 'everybody'),
    end: (server) => server.signal('SIGCONT', 'everybody'),
  },
  'it takes no logins, and answers on what is open': {
    begin: (server) => server.signal('SIGSTOP', 'postmaster'),
    end: (server) => server.signal('SIGCONT', 'postmaster'),
  },
  'it is killed': { begin: (server) => server.kill(), end: (server) => server.restart() },
};

type Placed = TestProject & { readonly placement: Placement };

const HOMES = { 'a server by address': startTestService, 'servers of their own': startOwnService };

describe.each(Object.entries(HOMES))('added next to %s', (_name, start) => {
  let service: TestService;
  let server: AddedServer;
  beforeAll(async () => {
    [service, server] = await Promise.all([start(), startAddedServer()]);
    const admin = (await service.engine.tokens.create(null)).token;
    const body = { name: 'second', url_reference: `env:${variableWith(server.url)}` };
    const added = await service.call('POST', '/api/cdp/admin/servers', { token: admin, body });
    expect(added.status, added.text).toBe(201);
    await service.project(undefined, 'default');
  });
  afterAll(async () => {
    await service.close();
    await server.close();
  });

  const onServer = async (name: string): Promise<Placed> => {
    const project = await service.project(undefined, name);
    const made = await project.call('POST', '/api/cdp/schema/table', { body: LEDGER_TABLE });
    expect(made.status, made.text).toBe(201);
    return { ...project, placement: (await service.engine.projects.get(project.name)).placement };
  };
  const ready = async () => (await service.call('GET', '/readyz')).body;
  const ask = (project: TestProject, sql = 'SELECT 1 AS one'): Promise<TestResponse> =>
    project.call('POST', '/api/cdp/sql', { body: { sql, timeout_ms: 60_000 } });
  const refused = (response: TestResponse) => {
    expectFailure(response, 503, 'database_unavailable');
    expect(response.headers.get('retry-after')).toBe('1');
  };

  it.each(Object.entries(FAULTS))('%s', async (name, fault) => {
    await expect.poll(() => service.engine.serverWatch.states).toMatchObject([{ server: 'second', isUp: true }]);
    expect(await ready()).toEqual({ success: true, message: 'ready' });
    const [here, there] = [await onServer('default'), await onServer('second')];
    const crowds = [here, there].map((project) => {
      const ledger = new Ledger();
      const { token } = project;
      const options = { url: () => service.url, token, ledger, count: 8, name: `${project.name}-` };
      return { ledger, clients: startClients(options) };
    });
    const [atHome, away] = crowds.map(({ ledger }) => ledger) as [Ledger, Ledger];
    await expect.poll(() => away.codes['201'] ?? 0).toBeGreaterThan(20);
    const hanging = ask(there, 'SELECT pg_sleep(60)');
    await fault.begin(server);
    try {
      await expect.poll(ready).toEqual({ success: true, message: 'degraded', servers: ['second'] });
      expect((await service.call('GET', '/metrics')).text).toMatch(/^cdp_server_up\{server="second"\} 0$/m);
      for (let request = 0; request < IN_TURN; request++) refused(await ask(there));
      refused(await there.call('GET', '/api/cdp/schema'));
      refused(await hanging);
      const nothing = { running: 0, waiting: 0 };
      await expect
        .poll(() => service.engine.databaseAccess.capacities.load(there.id))
        .toEqual({ typed: nothing, sql: nothing });
      const { placement } = await service.engine.projects.get((await service.project()).name);
      expect(placement.added, 'the least loaded server does not answer').toBeNull();
      await expect(service.project('nowhere', 'second')).rejects.toMatchObject({ code: 'database_unavailable' });
      const { moves } = service.engine;
      for (const [project, to] of [
        [here.name, 'second'],
        [there.name, 'default'],
      ] as const) {
        const { obstacles, bytes } = await moves.plan(project, to, 'copy');
        expect(obstacles).toContain('the server second does not answer');
        expect(bytes === null).toBe(project === there.name);
        const options = { mode: 'copy', verify: 'counts', maxPauseMs: null } as const;
        await expect(moves.start(project, to, options, BY_ITSELF)).rejects.toMatchObject({
          code: 'database_unavailable',
        });
      }
    } finally {
      await fault.end(server);
    }
    await expect.poll(async () => (await ask(there)).status).toBe(200);
    expect(await ready()).toEqual({ success: true, message: 'ready' });
    const { text } = await service.call('GET', '/metrics');
    expect(text).toMatch(/^cdp_server_up\{server="second"\} 1$/m);
    expect(text).toMatch(/^cdp_commit_duration_seconds\{server="second"\} [0-9.e-]+$/m);
    expect(text).toMatch(/^cdp_standby_missing\{server="second"\} 0$/m);
    const again = (away.codes['201'] ?? 0) + 20;
    await expect.poll(() => away.codes['201']).toBeGreaterThan(again);
    await Promise.all(crowds.map(({ clients }) => clients.stop()));
    const verdicts = [
      await inProject(service, here.placement, (client) => atHome.compare(client)),
      await connected({ ...server.connection, database: there.placement.database }, (client) => away.compare(client)),
    ];
    console.log(name, verdicts, atHome.codes, away.codes);
    for (const { wrong } of verdicts) expect(wrong, UNTRUE).toEqual([]);
    expect(Object.keys(away.codes).filter((code) => !TRUE_RESPONSES.includes(code))).toEqual([]);
    expect(Object.keys(atHome.codes).filter((code) => !['200', '201'].includes(code))).toEqual([]);
  });
});
