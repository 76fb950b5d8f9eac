/**
 * A project asks everything it can of Postgres, next to a neighbor whose every name and text is marked. On servers of
 * their own, no response contains a mark. On a shared server, no response contains the neighbor's data; only names that
 * Postgres shows to everyone may appear. The same questions, asked by the superuser in the neighbor's own database,
 * find the marks.
 */
import { readFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { testServers } from '../support/postgres.js';
import {
  inProject,
  startOwnService,
  startTestService,
  type TestProject,
  type TestService,
} from '../support/service.js';
import { type Ask, asClient, askTool, asMcp, asNeonDriver, asProject, asSuperuser } from './ask.js';
import { login } from '../postgres-port/connect.js';
import { makeNeighbour, type Neighbour } from './neighbour.js';
import { byOidProbes } from './probes/by-oid.js';
import { type Call, functionCalls } from './probes/functions.js';
import { askEach, type Probe, type Report } from './probes/probe.js';
import { relationProbes } from './probes/relations.js';

const TOOLS = readFileSync(new URL('probes/tools.sql', import.meta.url), 'utf8');
const STATEMENTS = readFileSync(new URL('probes/statements.sql', import.meta.url), 'utf8');

/** Questions between two looks at the neighbour. */
const BATCH = 60;

/** Calls of functions in one request. Those that write whole tables as XML take long: each has a request of its own. */
const CALLS = 30;
const isSlow = ({ name }: Call): boolean => name.includes('_to_xml');

/** A machine may take long for the questions of one batch. */
const WORK_MS = 15_000;

/** Numbers of large objects may be chosen; all others are given out in order. */
const CHOSEN = 4_000_000_000;

/** What Postgres shows to nobody but the session that has it, not even to the superuser. */
const OF_A_SESSION = [
  ...['guc', 'gucvalue', 'temporary', 'temporaryrow', 'prepared', 'preparedtext', 'cursor', 'cursortext'],
  ...['uncommitted', 'unborn', 'slowstatement', 'channel', 'payload', 'token'],
];

/** Random names, which say nothing of a project. */
const NAMES = ['role', 'database', 'controldatabase'];

const PORT = { 'pg-port': '0' };

/**
 * What Postgres may show depends on the server, so the writer asks everything on each. What a way to ask adds does not,
 * so everything is asked in every way only where most can be found.
 */
const TENANCIES = [
  { where: 'servers of their own', start: () => startOwnService(PORT), mayShow: [] as string[], ways: 'by names' },
  ...testServers().map((server) => ({
    where: `a shared Postgres ${server.major}`,
    start: () => startTestService(PORT, server),
    mayShow: NAMES,
    ways: server.major === 18 ? 'by everything' : 'none',
  })),
];

describe.each<(typeof TENANCIES)[number]>(TENANCIES)('on $where', ({ start, mayShow, ways }) => {
  let service: TestService;
  let prober: TestProject;
  /** Asks what names the neighbour: whatever it grants to that name, its own catalogs show afterward. */
  let namer: TestProject;
  let neighbour: Neighbour;
  let relations: Probe[];
  let numbers: Probe[];
  let calls: Call[];

  beforeAll(async () => {
    service = await start();
    prober = await service.project();
    namer = await service.project();
    neighbour = await makeNeighbour(service);
    for (const project of [prober, namer]) await project.rows(TOOLS);
    await prober.rows('INSERT INTO probe_oids SELECT unnest($1::bigint[])::oid', [neighbour.oids]);
    const { placement } = await service.engine.projects.get(prober.name);
    await inProject(service, placement, async (client) => {
      relations = await relationProbes(client);
      calls = await functionCalls(client);
    });
    numbers = byOidProbes(Math.max(...neighbour.oids.filter((oid) => oid < CHOSEN)) + 1_000);
  });
  beforeEach(() => work());
  afterEach(() => neighbour.rest());
  afterAll(() => service.close());

  let workingSince = 0;
  async function work(): Promise<void> {
    const pids = await neighbour.work();
    workingSince = performance.now();
    await prober.rows('DELETE FROM probe_numbers');
    await prober.rows('INSERT INTO probe_numbers SELECT unnest($1::integer[]) UNION SELECT generate_series(0, 8)', [
      pids,
    ]);
  }

  /** To be called between questions: the neighbour's requests may run for a minute, and then begin anew. */
  async function keepWorking(): Promise<void> {
    if (performance.now() - workingSince < WORK_MS) return;
    await neighbour.rest();
    await work();
  }

  /** The lines of statements.sql, with the neighbour's names in place. */
  function statements(): Probe[] {
    const { markers, placement } = neighbour;
    const { writer, reader, database } = placement;
    const names: Record<string, string> = { writer, reader, database, control: service.database };
    return STATEMENTS.split('\n')
      .filter((line) => line !== '' && !line.startsWith('--'))
      .map((line) => ({
        name: line,
        sql: markers
          .fill(line)
          .replace(/\{(writer|reader|database|control)\}/g, (_, name: string) => names[name] ?? ''),
      }));
  }

  const marksIn = (response: string, asked?: string): string[] =>
    neighbour.markers.in(response, asked).filter((kind) => !mayShow.includes(kind));

  /** Asks all, and answers which questions showed what. */
  async function shown(ask: Ask, probes: readonly Probe[], atOnce?: number, marks = marksIn) {
    const found: Record<string, string[]> = {};
    const report: Report = ({ name, sql }, response) => {
      const kinds = marks(response, sql);
      if (kinds.length > 0) found[name] = kinds;
    };
    for (let at = 0; at < probes.length; at += BATCH) {
      await keepWorking();
      await askEach(ask, probes.slice(at, at + BATCH), report, atOnce);
    }
    return found;
  }

  /** One at a time: they name the neighbour, and a project may see the text of its own other requests. */
  const shownByNames = (ask: Ask) => shown(ask, statements(), 1);

  /** Calls all functions, many in one request, and answers which calls showed what. */
  async function shownByCalls(ask: Ask): Promise<Record<string, string[]>> {
    const found: Record<string, string[]> = {};
    const isIn = (response: string): boolean => marksIn(response).length > 0;
    const others = calls.filter((one) => !isSlow(one));
    const batches = calls.filter(isSlow).map((one) => [one]);
    for (let at = 0; at < others.length; at += CALLS) batches.push(others.slice(at, at + CALLS));
    for (const batch of batches) {
      await keepWorking();
      const response = await ask(
        'SELECT data.probe(question, source) FROM unnest($1::text[], $2::text[]) AS asked (question, source)',
        [batch.map(({ question }) => question), batch.map(({ source }) => source)],
      );
      if (!isIn(response)) continue;
      for (const { question, source } of batch) {
        const one = await ask('SELECT data.probe($1, $2)', [question, source]);
        if (isIn(one)) found[question] = marksIn(one);
      }
    }
    return found;
  }

  it('detects the marks as the superuser', async () => {
    const { placement } = neighbour;
    const { address } = service.engine.servers.serverOf(placement);
    const here = asSuperuser({ ...address, database: placement.database });
    const control = asSuperuser({ ...service.server.connection, database: service.database });
    const seen = new Set<string>();
    const missing = () => [...neighbour.kinds].filter((kind) => !seen.has(kind)).sort();
    const all = (ask: Ask, probes: readonly Probe[]) =>
      shown(ask, probes, undefined, (...text) => neighbour.markers.in(...text));
    // A question may meet the lock of another test, and is then asked once more.
    for (let round = 0; round < 3 && missing().length > OF_A_SESSION.length; round++) {
      const responses = [
        await all(here.ask, [...relations.filter(({ name }) => name.startsWith('rows')), ...numbers]),
        await all(
          control.ask,
          ['projects', 'tokens'].map((name) => ({ name, sql: `SELECT * FROM cdp.${name}` })),
        ),
      ];
      for (const kind of responses.flatMap((found) => Object.values(found).flat())) seen.add(kind);
    }
    await Promise.all([here.end(), control.end()]);
    expect(missing()).toEqual(OF_A_SESSION.sort());
  });

  it('asks more than 1,100 questions', () => {
    expect(relations.length + numbers.length + calls.length + statements().length).toBeGreaterThan(1_100);
  });

  const reader = async (project: TestProject): Promise<Ask> => asProject(project, await project.tokenWith('sql:read'));

  async function asking(project: TestProject, role: 'writer' | 'reader', questions: (ask: Ask) => Promise<object>) {
    const { ask, end } = asClient(login(service, project, role));
    expect(await questions(ask)).toEqual({});
    await end();
  }

  describe('reveals nothing to the writer', () => {
    it('by relations', async () => expect(await shown(asProject(prober, prober.token), relations)).toEqual({}));
    it('by numbers', async () => expect(await shown(asProject(prober, prober.token), numbers)).toEqual({}));
    it('by functions', async () => expect(await shownByCalls(asProject(prober, prober.token))).toEqual({}));
    it('by names', async () => expect(await shownByNames(asProject(namer, namer.token))).toEqual({}));
  });

  if (ways === 'none') return;

  describe('reveals nothing by names', () => {
    it('to the reader', async () => expect(await shownByNames(await reader(namer))).toEqual({}));

    it('in a stream of NDJSON', async () => {
      expect(await shownByNames(asProject(namer, namer.token, 'application/x-ndjson'))).toEqual({});
    });

    it("to Neon's driver", async () => {
      expect(await shownByNames(asNeonDriver(namer, namer.token))).toEqual({});
    });

    it.each(['query', 'dry_run_sql'] as const)('to an agent, with %s', async (tool) => {
      expect(await shownByNames(asMcp(service, namer.token, tool))).toEqual({});
    });

    it('to an agent, by the tools that list and describe', async () => {
      const found: Record<string, string[]> = {};
      const { stem } = neighbour.markers;
      const names = ['table', 'api', 'view', 'sequence', 'function'].map((kind) => `${stem}_${kind}`);
      const calls = [
        { name: 'list_tables', args: {} },
        ...names.map((table) => ({ name: 'describe_table', args: { table } })),
      ];
      for (const { name, args } of calls) {
        const asked = JSON.stringify(args);
        const kinds = marksIn(await askTool(service, namer.token, name, args), asked);
        if (kinds.length > 0) found[`${name} ${asked}`] = kinds;
      }
      expect(found).toEqual({});
    });

    it.each(['writer', 'reader'] as const)('to a Postgres client, the %s', (role) => asking(namer, role, shownByNames));
  });

  if (ways === 'by names') return;

  describe('reveals nothing to the reader', () => {
    it('by relations', async () => expect(await shown(await reader(prober), relations)).toEqual({}));
    it('by numbers', async () => expect(await shown(await reader(prober), numbers)).toEqual({}));
    it('by functions', async () => expect(await shownByCalls(await reader(prober))).toEqual({}));
  });

  describe('reveals nothing by relations', () => {
    it('in a stream of CSV', async () => {
      const rows = relations.filter(({ name }) => name.startsWith('rows'));
      expect(await shown(asProject(prober, prober.token, 'text/csv'), rows)).toEqual({});
    });

    it("to Neon's driver", async () => {
      expect(await shown(asNeonDriver(prober, prober.token), relations)).toEqual({});
    });

    it('to an agent, with query', async () => {
      expect(await shown(asMcp(service, prober.token, 'query'), relations)).toEqual({});
    });
  });

  describe.each(['writer', 'reader'] as const)('reveals nothing to a Postgres client, the %s', (role) => {
    it('by relations', () => asking(prober, role, (ask) => shown(ask, relations, 1)));
    it('by numbers', () => asking(prober, role, (ask) => shown(ask, numbers, 1)));
    it('by functions', () => asking(prober, role, shownByCalls));
  });
});
