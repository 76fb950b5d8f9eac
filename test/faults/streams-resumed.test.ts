/**
 * A large stream whose connection breaks at ten places, each followed by one that goes on from the receipt's byte: in the end
 * the table has each record once, in order. CDP_TEST_STREAM_MB=2000 sends 2 GB.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { endEverything, eventually, type RunningService } from '../support/program.js';
import { call } from '../support/service.js';
import { databaseOf, onDatabase, type ServerStage, serverStage } from './support/stage.js';

let stage: ServerStage;
let service: RunningService;
let database: string;
beforeAll(async () => {
  stage = await serverStage();
  service = await stage.start();
  database = await onDatabase({ ...stage.server().connection, database: 'cdp' }, databaseOf('shop'));
});
afterAll(async () => {
  await endEverything();
  await stage.close();
});

const BREAKS = 10;
const LINE_BYTES = 128;
const RECORDS = Math.floor((Number(process.env['CDP_TEST_STREAM_MB'] ?? 64) * 1e6) / LINE_BYTES);
const PIECE_LINES = 1_000;

interface Format {
  readonly type: string;
  readonly head: string;
  /** The first n characters of a line with the record's number, which padding makes as long as any other. */
  readonly begin: (n: number) => string;
  readonly end: string;
}

const FORMATS: Record<string, Format> = {
  ndjson: { type: 'application/x-ndjson', head: '', begin: (n) => `{"n":${n},"note":"${n} `, end: '"}\n' },
  csv: { type: 'text/csv', head: 'n,note\n', begin: (n) => `${n},"${n}\n`, end: '"\n' },
};

/** The bytes of the stream from one to another, in pieces. */
function* bytesOf({ head, begin, end }: Format, from: number, to: number): Generator<Buffer> {
  if (from < head.length) yield Buffer.from(head.slice(from, to));
  const [first, last] = [Math.max(0, from - head.length), to - head.length];
  for (let at = Math.floor(first / LINE_BYTES); at * LINE_BYTES < last; at += PIECE_LINES) {
    let text = '';
    for (let n = at; n < Math.min(at + PIECE_LINES, RECORDS); n++) {
      text += begin(n).padEnd(LINE_BYTES - end.length, 'x') + end;
    }
    const start = at * LINE_BYTES;
    yield Buffer.from(text).subarray(Math.max(0, first - start), last - start);
  }
}

/** A number from 0 to 1 that is always the same for the same i. */
const scattered = (i: number): number => ((i * 0.618_033_988_7) % 1) * 0.9 + 0.05;

const peakMemory = (pid: number): number =>
  Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;

describe.each(Object.entries(FORMATS))('%s', (name, format) => {
  const table = `large_${name}`;
  const length = format.head.length + RECORDS * LINE_BYTES;

  /** Sends the stream from its byte to another, and breaks the connection unless that is its end. */
  async function send(from: number, to: number): Promise<Record<string, unknown> | null> {
    const sending = request(`${service.url}/api/cdp/data/${table}?offset=${from}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${stage.token}`,
        'content-type': format.type,
        'content-length': length - from,
        'idempotency-key': name,
      },
    });
    let response: AsyncIterable<Buffer> | undefined;
    const answered = once(sending, 'response').then(
      ([first]) => void (response = first as AsyncIterable<Buffer>),
      () => {},
    );
    for (const piece of bytesOf(format, from, to)) {
      if (response !== undefined) break;
      if (!sending.write(piece)) await Promise.race([once(sending, 'drain'), answered]);
    }
    if (to < length) {
      sending.destroy();
      return null;
    }
    sending.end();
    await answered;
    let text = '';
    for await (const part of response ?? []) text += part.toString();
    sending.destroy();
    return JSON.parse(text) as Record<string, unknown>;
  }

  const receipt = async () =>
    (await call(service.url, 'GET', `/api/cdp/receipts/${name}?table=${table}`, { token: stage.token })).body;

  /** In one snapshot: what is known of the stream, and what is in the table. */
  async function look(): Promise<{ bytes: number; rows: number; count: number }> {
    const [row] = await stage.query<{ bytes: string; rows: string; count: string }>(
      `SELECT coalesce(max(stream_bytes), 0) AS bytes, coalesce(max(stream_rows), 0) AS rows,
        (SELECT count(*) FROM data.${table}) AS count FROM _cdp.idempotency_keys WHERE key = '${name}'`,
      [],
      database,
    );
    return { bytes: Number(row?.bytes), rows: Number(row?.rows), count: Number(row?.count) };
  }

  it('is resumed exactly', async () => {
    const columns = [
      { name: 'n', type: 'INTEGER' },
      { name: 'note', type: 'TEXT' },
    ];
    const made = await call(service.url, 'POST', '/api/cdp/schema/table', {
      token: stage.token,
      body: { table_name: table, columns },
    });
    expect(made.status).toBe(201);

    let stored = 0;
    for (let i = 1; i <= BREAKS; i++) {
      const to = Math.floor((length * (i - 1 + scattered(i))) / BREAKS);
      await send(stored, Math.max(stored, to));
      // A chunk may still be stored after this: then the next request begins with what is stored already.
      const { bytes, rows, count } = await look();
      expect(bytes).toBeGreaterThanOrEqual(stored);
      expect([rows, count]).toEqual(Array(2).fill(Math.floor(Math.max(0, bytes - format.head.length) / LINE_BYTES)));
      stored = bytes;
    }
    expect(stored).toBeGreaterThan(0);
    const answer = await eventually('nobody else sends the stream', async () => {
      const one = await send(stored, length);
      return one?.['error'] === 'request_in_flight' ? null : one;
    });
    expect(answer).toMatchObject({ inserted_rows: RECORDS, bytes: length });
    expect(await receipt()).toMatchObject({ rows: RECORDS, bytes: length, complete: true });
    const [found] = await stage.query(
      `SELECT count(*)::int AS count, count(DISTINCT n)::int AS numbers, min(n)::int AS first, max(n)::int AS last,
        bool_and(note LIKE n || '_x%') AS right, count(DISTINCT length(n || note))::int AS lengths FROM data.${table}`,
      [],
      database,
    );
    expect(found).toEqual({
      ...{ count: RECORDS, numbers: RECORDS, first: 0, last: RECORDS - 1 },
      ...{ right: true, lengths: 1 },
    });
    console.log(
      `${name}: ${(length / 1e6).toFixed(0)} MB, service at most ${peakMemory(service.process.pid ?? 0).toFixed(0)} MiB`,
    );
  });
});
