/** Inserting any number of records through the client, against the real service. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CdpClient, CdpError, type InsertProgress, type RefusedRecord } from '../../src/client/index.js';
import { startTestService, type TestProject, type TestService } from '../support/service.js';

let service: TestService;
let project: TestProject;
let cdp: CdpClient;
let counter = 0;

beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  cdp = new CdpClient({ url: service.url, token: project.token });
});
afterAll(() => service.close());

interface Item {
  n: number;
  name?: string | null;
}

/** An empty table of `n` and `name`, with what SQL adds to it. */
async function table(...statements: string[]): Promise<string> {
  const name = `items_${++counter}`;
  await project.table(name, { n: 'INTEGER', name: 'TEXT' });
  for (const statement of statements) await project.rows(statement.replaceAll('$table', name));
  return name;
}

function* items(count: number): Generator<Item> {
  for (let n = 0; n < count; n++) yield { n, name: `item ${n}` };
}

const counted = async (name: string): Promise<unknown> =>
  (await project.rows(`SELECT count(*) AS rows, count(DISTINCT n) AS different FROM ${name}`))[0];

async function caught(work: Promise<unknown>): Promise<CdpError> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof CdpError)) throw new Error(`Expected a CdpError, got ${String(error)}`, { cause: error });
  return error;
}

describe('insert works', () => {
  it('with an iterable of any length: 0, 1, 250, 251 and 1,001 records', async () => {
    for (const [count, batches] of [
      [0, 0],
      [1, 1],
      [250, 1],
      [251, 2],
      [1_001, 5],
    ] as const) {
      const name = await table();
      const result = await cdp.table<Item>(name).insert(items(count));
      expect(result).toEqual({ inserted: count, batches, retries: 0, refused: 0 });
      expect(await counted(name)).toEqual({ rows: count, different: count });
    }
  });

  it('with an async iterable, an array and a stream', async () => {
    const name = await table();
    async function* slowly(): AsyncGenerator<Item> {
      for (const item of items(300)) {
        await Promise.resolve();
        yield item;
      }
    }
    await cdp.insert<Item>(name, slowly());
    await cdp.insert(name, [{ n: 300 }]);
    await cdp.insert(name, ReadableStream.from<Item>([{ n: 301 }]));
    expect(await counted(name)).toEqual({ rows: 302, different: 302 });
  });

  it('with batches cut by bytes too, so that no body exceeds the limit', async () => {
    const name = await table();
    // 30 records of 1 MiB, in two-byte characters: a count of characters would take them for half.
    const large = Array.from({ length: 30 }, (_, n) => ({ n, name: 'é'.repeat(512 * 1024) }));
    const result = await cdp.insert(name, large, { concurrency: 1 });
    expect(result).toMatchObject({ inserted: 30, batches: 4 });
    expect(await counted(name)).toEqual({ rows: 30, different: 30 });
  });

  it('and returns the ids in the order of the records', async () => {
    const name = await table();
    const { ids } = await cdp.insert(name, items(600), { return: 'ids' });
    expect(ids).toHaveLength(600);
    const rows = await project.rows(`SELECT id, n FROM ${name} ORDER BY n`);
    expect(rows.map(({ id }) => id)).toEqual(ids);
  });

  it('and reports progress after each batch', async () => {
    const name = await table();
    const reports: InsertProgress[] = [];
    await cdp.insert(name, items(700), { onProgress: (progress) => reports.push(progress) });
    expect(reports.map(({ batches }) => batches)).toEqual([1, 2, 3]);
    expect(reports.at(-1)).toEqual({ inserted: 700, batches: 3, retries: 0, refused: 0 });
  });

  it('with bigints, dates, NaN and nested values unchanged', async () => {
    const name = `values_${++counter}`;
    await project.table(name, { i: 'INTEGER', f: 'FLOAT', t: 'TIMESTAMP', j: 'JSONB' });
    const at = new Date('2026-01-31T09:30:00.125Z');
    await cdp.insert(name, [
      { i: 9223372036854775807n, f: NaN, t: at, j: { digits: 12345678901234567890n, list: [1, null] }, k: undefined },
      { i: -1n, f: -0, t: null, j: 'text' },
    ]);
    expect(await project.rows(`SELECT i::text, f::text, t, j::text FROM ${name} ORDER BY i DESC`)).toEqual([
      {
        i: '9223372036854775807',
        f: 'NaN',
        t: '2026-01-31T09:30:00.125Z',
        j: '{"list": [1, null], "digits": 12345678901234567890}',
      },
      { i: '-1', f: '-0', t: null, j: '"text"' },
    ]);
  });

  it('and takes from the source only what it can soon send', async () => {
    const name = await table();
    let taken = 0;
    let most = 0;
    let acknowledged = 0;
    function* watched(): Generator<Item> {
      for (const item of items(5_000)) {
        most = Math.max(most, ++taken - acknowledged);
        yield item;
      }
    }
    await cdp.insert(name, watched(), { concurrency: 2, onProgress: ({ inserted }) => (acknowledged = inserted) });
    expect(taken).toBe(5_000);
    expect(most).toBeLessThanOrEqual(4 * 250);
  });
});

describe('a dry run', () => {
  it('of an insert, a replay or a delete stores and deletes nothing, and says what would happen', async () => {
    const name = await table('CREATE UNIQUE INDEX ON $table (n)');
    const tried = await cdp.table<Item>(name).insert(items(300), { dryRun: true });
    expect(tried).toMatchObject({ inserted: 300, batches: 2 });
    const lock = { table: name, modes: ['RowExclusiveLock'] };
    expect(tried.impact).toMatchObject({ rows: [{ table: name, inserted: 300 }], locks: [lock], rewritten: [] });
    await cdp.insert(name, [{ n: 1 }, { n: 'x' }], { onError: 'quarantine' });
    const replayed = await cdp.replayQuarantine({ table: name, set: { n: 2 }, dryRun: true });
    expect(replayed).toMatchObject({ inserted: 1, impact: { rows: [{ table: name, inserted: 1 }] } });
    for (let i = 0; i < 2; i++) expect(await cdp.delete(name, [{ n: 1 }], { by: 'n', dryRun: true })).toBe(1);
    expect(await counted(name)).toEqual({ rows: 1, different: 1 });
    expect(await cdp.dropQuarantine({ table: name })).toBe(1);
  });
});

it('sends bytes as bytea, in records and parameters, at any depth', async () => {
  const name = `values_${++counter}`;
  await project.rows(`CREATE TABLE ${name} (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), b bytea, j jsonb)`);
  const bytes = Buffer.from([0, 0x5c, 255]);
  const view = new DataView(Uint8Array.of(9, 0, 0x5c, 255).buffer, 1);
  for (const value of [bytes, new Uint8Array(bytes), view, new Uint8Array(bytes).buffer]) {
    await cdp.insert(name, [{ b: value, j: { deep: [value] } }]);
    const { rows } = await cdp.query('SELECT $1::bytea AS b, $2::jsonb AS j', [value, { deep: [value] }]);
    expect(rows).toEqual([{ b: '\\x005cff', j: { deep: ['\\x005cff'] } }]);
  }
  const stored = await project.rows(`SELECT DISTINCT encode(b, 'hex') AS b, j FROM ${name}`);
  expect(stored).toEqual([{ b: '005cff', j: { deep: ['\\x005cff'] } }]);
  const boxed = await cdp.query('SELECT $1::text AS t', [Object('a')]);
  expect(boxed.rows).toEqual([{ t: 'a' }]);
});

describe('insert refuses', () => {
  it.each([0, -1, 0.5, NaN])('a concurrency of %s', async (concurrency) => {
    const sent = cdp.table('people').insert([{ name: 'a' }], { concurrency });
    await expect(sent).rejects.toThrow('concurrency must be a whole number from 1');
  });

  it("onRefused together with onError: 'quarantine'", async () => {
    const sent = cdp.insert('people', [{ name: 'a' }], { onError: 'quarantine', onRefused: () => {} });
    await expect(sent).rejects.toThrow(TypeError);
  });

  it('a batch by naming the position in the whole input and how much was stored', async () => {
    const name = await table();
    const records: object[] = [...items(1_000)];
    records[603] = { n: 'many' };
    const error = await caught(cdp.insert(name, records, { concurrency: 1 }));
    expect(error).toMatchObject({ code: 'invalid_value', status: 400, inserted: 500, errorCount: 1 });
    expect(error.errors).toMatchObject([{ record: 603, column: 'n', error: 'invalid_value' }]);
    expect(error.message).toMatch(/^Record 603, column "n"/);
    expect(error.errors[0]?.message).toMatch(/^Record 603/);
    expect(error.requestId).toMatch(/./);
    expect(await counted(name)).toEqual({ rows: 500, different: 500 });
  });

  it('a table that does not exist; a name that no table can have without sending a request', async () => {
    expect(await caught(cdp.insert('nowhere', items(1)))).toMatchObject({ code: 'table_not_found', status: 404 });
    expect(await caught(cdp.insert('../schema/table', items(1)))).toMatchObject({ code: 'invalid_name', status: 0 });
    expect(await caught(cdp.describe('..'))).toMatchObject({ code: 'invalid_name', status: 0 });
  });

  it('a wrong token', async () => {
    const stranger = new CdpClient({ url: service.url, token: 'cdp_wrong' });
    expect(await caught(stranger.tables())).toMatchObject({ code: 'unauthorized', status: 401 });
  });

  it('a record that JSON cannot represent, and one that is larger than a batch may be', async () => {
    const name = await table();
    const unsendable = await caught(cdp.insert(name, [{ n: 1 }, { n: new Date(NaN) }]));
    const place = { record: 1, column: 'n', message: 'Record 1, column "n": the Date is invalid' };
    expect(unsendable).toMatchObject({ code: 'invalid_value', message: place.message, errors: [place] });
    const batch = await caught(cdp.insertBatch(name, [{ n: 1 }, { n: new Date(NaN) }]));
    expect(batch).toMatchObject({ code: 'invalid_value', message: place.message, errors: [place] });
    const huge = await caught(cdp.insert(name, [{ n: 1, name: 'x'.repeat(11_000_000) }]));
    expect(huge).toMatchObject({ code: 'payload_too_large', errors: [{ record: 0 }] });
    expect(await counted(name)).toEqual({ rows: 0, different: 0 });
  });

  it('anything but a source of records, and says what it accepts', async () => {
    const name = await table();
    const refused = (records: unknown, said: string) =>
      expect(cdp.insert(name, records as Item[])).rejects.toThrow(new TypeError(said));
    const said = 'insert takes an iterable or async iterable of records';
    await refused({ n: 1 }, `${said}; one record goes as [record]`);
    await refused(Promise.resolve([]), `${said}; await it`);
    for (const none of [undefined, null, 'text', 1]) await refused(none, said);
    const one = { n: 1 } as unknown as Item[];
    await expect(cdp.insertBatch(name, one)).rejects.toThrow('insert takes an array of records; one record');
    expect(await counted(name)).toEqual({ rows: 0, different: 0 });
  });

  it('objects that JSON would make empty, or an object of numbers', async () => {
    const name = `values_${++counter}`;
    await project.table(name, { j: 'JSONB' });
    const map = new Map([['a', 1]]);
    for (const [record, said] of [
      [map, 'Object.fromEntries'],
      [{ j: map }, 'Object.fromEntries'],
      [{ j: { deep: [new Set([1])] } }, '[...set]'],
      [{ j: Promise.resolve(1) }, 'await it'],
      [{ j: Float32Array.of(1) }, 'JSON has no Float32Array: [...array]'],
      [{ j: { deep: [new BigInt64Array(1)] } }, 'JSON has no BigInt64Array'],
      [{ j: /a/ }, 'JSON has no RegExp'],
      [{ j: new Error('x') }, 'JSON has no Error'],
      [{ j: new Blob(['x']) }, 'JSON has no Blob'],
    ] as const) {
      const error = await caught(cdp.insert(name, [record]));
      expect(error).toMatchObject({ code: 'invalid_value', message: expect.stringContaining(said) as string });
    }
    expect(await project.rows(`SELECT * FROM ${name}`)).toEqual([]);
  });

  it('to continue if the source fails, and closes a source that it does not read to the end', async () => {
    const name = await table();
    function* broken(): Generator<Item> {
      yield* items(500);
      throw new Error('disk on fire');
    }
    const error = await caught(cdp.insert(name, broken(), { concurrency: 1 }));
    expect(error).toMatchObject({ code: 'caller_error', inserted: 500, cause: new Error('disk on fire') });

    let closed = false;
    function* closing(): Generator<object> {
      try {
        yield { unknown: 1 };
        for (;;) yield { n: 1 };
      } finally {
        closed = true;
      }
    }
    await caught(cdp.insert(name, closing()));
    await expect.poll(() => closed).toBe(true);
  });
});

describe('insert with onRefused', () => {
  it('stores every good record and hands over every bad one, with its position and what is wrong', async () => {
    const name = await table();
    const records: object[] = [...items(1_000)];
    // More in one batch than a response lists.
    for (let i = 250; i < 400; i += 2) records[i] = { n: i, emial: 'x' };
    records[999] = { n: Symbol('no') };
    const refused: RefusedRecord<object>[] = [];
    const result = await cdp.insert(name, records, { return: 'ids', onRefused: (one) => void refused.push(one) });
    expect(result).toMatchObject({ inserted: 924, refused: 76 });
    expect(await counted(name)).toEqual({ rows: 924, different: 924 });
    expect(refused.map(({ index }) => index).sort((a, b) => a - b)).toEqual([
      ...Array.from({ length: 75 }, (_, i) => 250 + 2 * i),
      999,
    ]);
    for (const { index, record, errors } of refused) {
      expect(record).toBe(records[index]);
      expect(errors[0]).toMatchObject({ record: index });
    }
    expect(result.ids?.flatMap((id, i) => (id === null ? [i] : []))).toHaveLength(76);
  });

  it('finds the records that only Postgres can refuse', async () => {
    const name = await table('ALTER TABLE $table ADD CHECK (n % 100 <> 7), ADD UNIQUE (n)');
    await cdp.insert(name, [{ n: 42 }]);
    const refused: number[] = [];
    const result = await cdp.insert(name, items(300), { onRefused: ({ index }) => void refused.push(index) });
    expect(result).toMatchObject({ inserted: 296, refused: 4 });
    expect(refused.sort((a, b) => a - b)).toEqual([7, 42, 107, 207]);
    expect(await counted(name)).toEqual({ rows: 297, different: 297 });
  });

  it('bisects a batch to find a bad record that the error does not name', async () => {
    const name = await table();
    // Refused at the end of the statement, when no record is being looked at.
    await project.rows(`CREATE FUNCTION ${name}_f() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN IF EXISTS (SELECT FROM ${name} WHERE n = 33) THEN RAISE EXCEPTION 'not 33'; END IF; RETURN NULL; END $$`);
    await project.rows(`CREATE CONSTRAINT TRIGGER t AFTER INSERT ON ${name} DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION ${name}_f()`);
    const refused: number[] = [];
    const result = await cdp.insert(name, items(100), { onRefused: ({ index }) => void refused.push(index) });
    expect(refused).toEqual([33]);
    expect(result).toMatchObject({ inserted: 99, refused: 1 });
  });

  it('still fails if no record caused the error', async () => {
    const error = await caught(cdp.insert('nowhere', items(10), { onRefused: () => {} }));
    expect(error.code).toBe('table_not_found');
  });
});

describe('insert can be aborted', () => {
  it('before it starts', async () => {
    const name = await table();
    const error = await caught(cdp.insert(name, items(10), { signal: AbortSignal.abort('no more') }));
    expect(error).toMatchObject({ code: 'aborted', cause: 'no more' });
    expect(await counted(name)).toEqual({ rows: 0, different: 0 });
  });

  it('halfway, and says how much was acknowledged', async () => {
    const name = await table();
    const abort = new AbortController();
    function* endless(): Generator<Item> {
      for (let n = 0; ; n++) yield { n };
    }
    const error = await caught(
      cdp.insert(name, endless(), {
        signal: abort.signal,
        onProgress: ({ batches }) => batches === 3 && abort.abort(),
      }),
    );
    expect(error.code).toBe('aborted');
    expect(error.inserted).toBeGreaterThanOrEqual(750);
    const { rows } = (await counted(name)) as { rows: number };
    expect(rows).toBeGreaterThanOrEqual(error.inserted);
  });

  it('while it waits for the source', async () => {
    const name = await table();
    const abort = new AbortController();
    async function* stuck(): AsyncGenerator<Item> {
      yield* items(250);
      await new Promise(() => {});
    }
    const error = await caught(
      cdp.insert(name, stuck(), { signal: abort.signal, onProgress: () => abort.abort(), concurrency: 2 }),
    );
    expect(error).toMatchObject({ code: 'aborted', inserted: 250 });
  });
});
