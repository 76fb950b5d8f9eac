/**
 * A worker is killed, or a shard moves, while clients write batches: nothing acknowledged is lost, and nothing is
 * stored twice.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type CitusCluster, citusProject, hasCitus, startCitus } from '../support/citus-cluster.js';
import { connected } from '../support/postgres.js';
import {
  expectFailure,
  startTestService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../support/service.js';

const RECORDS = 20;
const PATIENT = { timeout: 60_000, interval: 100 };

describe.runIf(hasCitus())('a distributed table under load', () => {
  let cluster: CitusCluster;
  let service: TestService;
  let project: TestProject;

  beforeAll(async () => {
    cluster = await startCitus();
    service = await startTestService();
    project = await citusProject(service, cluster);
  });
  afterAll(async () => {
    await service?.close();
    await cluster?.close();
  });

  const distributed = async (table: string): Promise<void> => {
    await project.table(table, { batch: 'TEXT', n: 'INTEGER' });
    const body = { kind: 'hash', column: 'id' };
    const response = await project.call('PUT', `/api/cdp/schema/table/${table}/distribution`, { body });
    expect(response.status, response.text).toBe(200);
  };

  const insert = (table: string, batch: string, headers = {}, records = RECORDS): Promise<TestResponse> => {
    const body = Array.from({ length: records }, (_, n) => ({ batch, n }));
    return project.call('POST', `/api/cdp/data/${table}`, { body, headers });
  };

  /** Writers that go on until they are told to stop; what was acknowledged, and what has an unknown outcome. */
  const load = (table: string, withKeys: boolean) => {
    let isOver = false;
    /** Of those that were not stored, with their responses. */
    const failed = () => new Map<string, unknown>();
    const ledger = { stored: new Set<string>(), refused: failed(), unknown: failed() };
    const write = async () => {
      while (!isOver) {
        const batch = randomUUID();
        const { status, body } = await insert(table, batch, withKeys ? { 'idempotency-key': batch } : {});
        if (status === 201) ledger.stored.add(batch);
        else if (body.error === 'outcome_unknown') ledger.unknown.set(batch, body);
        else ledger.refused.set(batch, body);
      }
    };
    const writers = [write(), write(), write()];
    const stop = async () => {
      isOver = true;
      await Promise.all(writers);
    };
    return { ledger, stop };
  };

  /** Rows of each batch, in numbers of different rows and of all. */
  const batches = async (table: string): Promise<Map<string, [number, number]>> => {
    const sql = `SELECT batch, count(DISTINCT n)::int AS different, count(*)::int AS rows FROM ${table} GROUP BY batch`;
    const rows = (await project.rows(sql)) as { batch: string; different: number; rows: number }[];
    return new Map(rows.map(({ batch, different, rows }) => [batch, [different, rows]]));
  };

  it('loses and duplicates nothing while a shard moves to another worker, and refuses no batch', async () => {
    await distributed('moved');
    const [keyed, plain] = [load('moved', true), load('moved', false)];
    await vi.waitFor(() => expect(keyed.ledger.stored.size).toBeGreaterThan(5), PATIENT);
    const { database } = (await service.engine.projects.get(project.name)).placement;
    const ports = async (client: { query: (text: string) => Promise<{ rows: unknown[] }> }) => {
      const text = `SELECT shardid, nodeport FROM citus_shards WHERE shard_name LIKE 'data.moved%' ORDER BY shardid`;
      return (await client.query(text)).rows as { shardid: string; nodeport: number }[];
    };
    await connected({ ...cluster.coordinator.connection, database }, async (client) => {
      const [shard] = await ports(client);
      const from = shard?.nodeport;
      const to = cluster.workers.map(({ tcpPort }) => tcpPort).find((port) => port !== from);
      const move = `SELECT citus_move_shard_placement($1, '127.0.0.1', $2, '127.0.0.1', $3, 'force_logical')`;
      await client.query(move, [shard?.shardid, from, to]);
      expect((await ports(client))[0]).toEqual({ shardid: shard?.shardid, nodeport: to });
    });
    const before = plain.ledger.stored.size;
    await vi.waitFor(() => expect(plain.ledger.stored.size).toBeGreaterThan(before), PATIENT);
    await Promise.all([keyed.stop(), plain.stop()]);
    for (const { refused, unknown } of [keyed.ledger, plain.ledger]) {
      expect([...refused.values(), ...unknown.values()]).toEqual([]);
    }
    const stored = [...keyed.ledger.stored, ...plain.ledger.stored];
    expect(await batches('moved')).toEqual(new Map(stored.map((batch) => [batch, [RECORDS, RECORDS]])));
  });

  it('loses and duplicates nothing if a worker is killed, and continues once it is back', async () => {
    await distributed('struck');
    await project.table('beside', { n: 'INTEGER' });
    const { ledger, stop } = load('struck', true);
    await vi.waitFor(() => expect(ledger.stored.size).toBeGreaterThan(5), PATIENT);
    const [worker] = cluster.workers;
    await worker.stop('immediate');
    await vi.waitFor(() => expect(ledger.refused.size).toBeGreaterThan(0), PATIENT);
    // Enough for every shard to get some.
    expectFailure(await insert('struck', 'in the outage', {}, 250), 503, 'database_unavailable');
    const beside = () => project.call('POST', '/api/cdp/data/beside', { body: [{ n: 1 }] });
    expect((await beside()).status).toBe(201);
    const { status, body } = await project.call('GET', '/api/cdp/schema/table/struck');
    expect([status, (body.table as { distribution: { shards: number } }).distribution.shards]).toEqual([200, 4]);
    await worker.restart();
    await vi.waitFor(async () => expect((await insert('struck', 'after it')).status).toBe(201), PATIENT);
    await stop();
    // A repeat under its key settles what nobody knows, and stores what was refused.
    for (const batch of [...ledger.refused.keys(), ...ledger.unknown.keys()]) {
      const again = () => insert('struck', batch, { 'idempotency-key': batch });
      await vi.waitFor(async () => expect((await again()).status).toBe(201), PATIENT);
    }
    const all = [...ledger.stored, ...ledger.refused.keys(), ...ledger.unknown.keys(), 'after it'];
    const expected = new Map(all.map((batch) => [batch, [RECORDS, RECORDS]]));
    // A worker that died between the two phases of a commit shows those rows once Citus has recovered them.
    await vi.waitFor(async () => expect(await batches('struck')).toEqual(expected), PATIENT);
  });
});
