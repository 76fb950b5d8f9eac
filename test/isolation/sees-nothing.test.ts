/**
 * A project that asks everything it can of Postgres, beside a neighbour whose every name and text is marked: no answer
 * holds a mark. The same questions, put by the superuser in the neighbour's own database, find the marks.
 */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { testServers } from '../support/postgres.js';
import { onServer, startTestService, type TestProject, type TestService } from '../support/service.js';
import { type Ask, asProject, asSuperuser } from './ask.js';
import { controlDatabase, makeNeighbour, type Neighbour } from './neighbour.js';
import { byOidProbes } from './probes/by-oid.js';
import { type Call, functionCalls } from './probes/functions.js';
import { askEach, type Probe } from './probes/probe.js';
import { relationProbes } from './probes/relations.js';

const TOOLS = readFileSync(new URL('probes/tools.sql', import.meta.url), 'utf8');
const STATEMENTS = readFileSync(new URL('probes/statements.sql', import.meta.url), 'utf8');

/** Calls in one request. */
const BATCH = 60;

describe.each(testServers().map((server) => ({ server, major: server.major })))('on Postgres $major', ({ server }) => {
  let service: TestService;
  let prober: TestProject;
  let neighbour: Neighbour;
  let relations: Probe[];
  let numbers: Probe[];
  let calls: Call[];

  beforeAll(async () => {
    service = await startTestService({}, server);
    prober = await service.project();
    neighbour = await makeNeighbour(service);
    await prober.rows(TOOLS);
    await prober.rows('INSERT INTO probe_oids SELECT unnest($1::bigint[])::oid', [neighbour.oids]);
    await prober.rows('INSERT INTO probe_numbers SELECT unnest($1::integer[]) UNION SELECT generate_series(0, 8)', [
      neighbour.pids,
    ]);
    const { placement } = await service.engine.projects.get(prober.name);
    await onServer(
      server,
      async (client) => {
        relations = await relationProbes(client);
        calls = await functionCalls(client);
      },
      placement.database,
    );
    numbers = byOidProbes(Math.max(...neighbour.oids.filter((oid) => oid < 4_000_000_000)) + 1_000);
  });
  afterAll(async () => {
    await neighbour?.rest();
    await service.close();
  });

  /** The lines of statements.sql, with the neighbour's names in place. */
  function statements(): Probe[] {
    const { markers, placement } = neighbour;
    const { writer, reader, database } = placement;
    const names: Record<string, string> = { writer, reader, database, control: controlDatabase(service) };
    return STATEMENTS.split('\n')
      .filter((line) => line !== '' && !line.startsWith('--'))
      .map((line) => ({
        name: line,
        sql: markers.fill(line).replace(/\{(writer|reader|database|control)\}/g, (_, name: string) => names[name] ?? ''),
      }));
  }

  /** Asks all, and answers which questions showed what. */
  async function leaks(ask: Ask, probes: Probe[], asked: Call[] = []): Promise<Record<string, string[]>> {
    const found: Record<string, string[]> = {};
    const report = ({ name, sql }: Probe, answer: string): void => {
      const kinds = neighbour.markers.in(answer, sql);
      if (kinds.length > 0) found[name] = [...new Set([...(found[name] ?? []), ...kinds])];
    };
    const t0 = Date.now();
    for (const group of ['rows', 'plan', 'XML', 'all']) {
      const t = Date.now();
      await askEach(ask, probes.filter(({ name }) => name.startsWith(`${group} `)), report);
      console.log(group, Date.now() - t);
    }
    await askEach(ask, probes.filter(({ name }) => !/^(rows|plan|XML|all) /.test(name)), report);
    console.log('total', Date.now() - t0);
    for (let at = 0; at < asked.length; at += BATCH) {
      const batch = asked.slice(at, at + BATCH);
      const answer = await ask(
        `SELECT n, data.probe(question, source) AS answer FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS q (question, source, n)`,
        [batch.map(({ question }) => question), batch.map(({ source }) => source)],
      );
      if (neighbour.markers.in(answer).length === 0) continue;
      for (const { name, question, source } of batch) {
        const one = await ask('SELECT data.probe($1, $2) AS answer', [question, source]);
        report({ name: `${name}: ${question}`, sql: question }, one);
      }
    }
    return found;
  }

  it('asks more than 1,100 questions', () => {
    console.log(relations.length, numbers.length, calls.length, statements().length);
    expect(relations.length + numbers.length + calls.length + statements().length).toBeGreaterThan(1_100);
  });

  it('shows the writer nothing', async () => {
    expect(await leaks(asProject(prober, prober.token), [...relations, ...numbers, ...statements()], calls)).toEqual({});
  });

  it('shows the reader nothing', async () => {
    const token = await prober.tokenWith('sql:read');
    expect(await leaks(asProject(prober, token), [...relations, ...numbers, ...statements()], calls)).toEqual({});
  });

  it('shows nothing in streams', async () => {
    for (const accept of ['text/csv', 'application/x-ndjson']) {
      const ask = asProject(prober, prober.token, accept);
      expect(await leaks(ask, [...relations.filter(({ name }) => name.startsWith('rows')), ...statements()])).toEqual({});
    }
  });

  it('would show the marks, if they were there', async () => {
    const { ask, end } = await asSuperuser(server, neighbour.placement.database);
    const found = await leaks(ask, [...relations, ...numbers]);
    await end();
    const unseen = [...neighbour.kinds].filter((kind) => !Object.values(found).some((kinds) => kinds.includes(kind)));
    expect(unseen).toEqual([]);
  });
});
