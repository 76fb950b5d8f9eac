/**
 * A parallel scan of DuckDB's extension `postgres`, which is not available here, simulated by the statements that it
 * sends (duckdb/duckdb-postgres, src/postgres_scanner.cpp and src/storage/postgres_transaction.cpp).
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startOwnService, startTestService, type TestProject, type TestService } from '../support/service.js';
import { errorsIn, query, RawClient } from './connect.js';

const BEGIN = 'BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY';
const SNAPSHOT = 'SELECT pg_is_in_recovery(), pg_export_snapshot(), (select count(*) from pg_stat_wal_receiver)';
const copy = (where: string) => `COPY (SELECT "n", "text" FROM "data"."pages" ${where}) TO STDOUT (FORMAT "binary");`;
/** From the first page up to the last one, which is another's first: no row has the number 0. */
const pages = (first: number, last: number) => copy(`WHERE ctid BETWEEN '(${first},0)'::tid AND '(${last},0)'::tid`);

/** Signature, flags and the length of an extension, which there is none (Postgres manual, COPY, binary format). */
const HEADER_BYTES = 11 + 4 + 4;

describe.each([
  ['a server of its own', () => startOwnService({ 'pg-port': '0' }), true],
  // Its catalogs of other projects' sessions, and what could name them, are closed.
  ['a server that projects share', () => startTestService({ 'pg-port': '0' }), false],
] as const)('on %s', (_name, start, hasSnapshots) => {
  let service: TestService;
  let project: TestProject;

  beforeAll(async () => {
    service = await start();
    project = await service.project();
    await project.rows(`CREATE TABLE pages AS SELECT n, repeat('x', 500) AS text FROM generate_series(1, 500) n`);
  });

  afterAll(() => service?.close());

  const open = async (user: string): Promise<RawClient> => {
    const client = await RawClient.open(service.postgresPort ?? 0);
    await client.logIn(user, project.name, project.token);
    return client;
  };

  const ask = async (client: RawClient, sql: string) => {
    client.send(query(sql));
    return client.until('Z');
  };

  /** The numbers of a COPY in binary format. */
  const copied = async (client: RawClient, sql: string): Promise<number[]> => {
    const messages = await ask(client, sql);
    expect(errorsIn(messages)).toEqual([]);
    const bytes = Buffer.concat(messages.filter(({ type }) => type === 'd').map(({ body }) => body));
    const numbers: number[] = [];
    for (let at = HEADER_BYTES; bytes.readInt16BE(at) === 2;) {
      numbers.push(bytes.readInt32BE(at + 6));
      at += 10 + 4 + bytes.readInt32BE(at + 10);
    }
    return numbers;
  };

  const all = Array.from({ length: 500 }, (_, i) => i + 1);

  it.each(['reader', 'writer'])('the %s scans in parallel, in one snapshot if it may export one', async (user) => {
    const [first, second] = [await open(user), await open(user)];
    const found = await ask(first, `${BEGIN};\n${SNAPSHOT}`);
    if (hasSnapshots) {
      expect(errorsIn(found)).toEqual([]);
      const row = found.find(({ type }) => type === 'D')?.body.toString('latin1') ?? '';
      const [snapshot] = /[0-9A-F]{8}-[0-9A-F]{8}-\d+/.exec(row) ?? [];
      await project.rows(`INSERT INTO pages VALUES (501, 'later')`);
      await ask(second, BEGIN);
      expect(errorsIn(await ask(second, `SET TRANSACTION SNAPSHOT '${snapshot}'`))).toEqual([]);
      const parts = await Promise.all([copied(first, pages(0, 10)), copied(second, pages(10, 4_294_967_295))]);
      expect(parts.every(({ length }) => length > 0)).toBe(true);
      expect(parts.flat().sort((a, b) => a - b)).toEqual(all);
      await project.rows('DELETE FROM pages WHERE n > 500');
    } else expect(errorsIn(found)).toEqual(['42501']);
    for (const client of [first, second]) client.close();
  });

  it('exports no snapshot with pg_use_ctid_scan off', async () => {
    const client = await open('reader');
    await ask(client, BEGIN);
    expect(await copied(client, copy(''))).toEqual(all);
    expect(errorsIn(await ask(client, 'COMMIT'))).toEqual([]);
    client.close();
  });
});
