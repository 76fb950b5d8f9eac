/** Streams through the client, against the real service, over connections that break. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  CdpClient,
  CdpError,
  type InsertStreamOptions,
  type RefusedRecord,
  type TextSource,
} from '../../src/client/index.js';
import { type BreakingProxy, startBreakingProxy } from '../support/breaking-proxy.js';
import { startTestService, type TestProject, type TestService } from '../support/service.js';

let service: TestService;
let project: TestProject;
let proxy: BreakingProxy;
let cdp: CdpClient;
let counter = 0;

beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  proxy = await startBreakingProxy(service.url);
  cdp = new CdpClient({ url: proxy.url, token: project.token });
});
afterEach(() => {
  proxy.breakAfter = [];
  proxy.broken = 0;
});
afterAll(async () => {
  await proxy.close();
  await service.close();
});

interface Item {
  n: number | string;
  name?: string;
}

async function table(...statements: string[]): Promise<string> {
  const name = `streamed_${++counter}`;
  await project.table(name, { n: 'INTEGER', name: 'TEXT' });
  for (const statement of statements) await project.rows(statement.replaceAll('$table', name));
  return name;
}

function* items(count: number): Generator<Item> {
  for (let n = 0; n < count; n++) yield { n, name: `item ${n} é` };
}

async function* later(count: number): AsyncGenerator<Item> {
  for (const item of items(count)) yield Promise.resolve(item);
}

const counted = async (name: string): Promise<unknown> =>
  (await project.rows(`SELECT count(*) AS rows, count(DISTINCT n) AS different FROM ${name}`))[0];

const exactly = (count: number) => ({ rows: count, different: count });

async function caught(work: Promise<unknown>): Promise<CdpError> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof CdpError)) throw new Error(`Expected a CdpError, got ${String(error)}`, { cause: error });
  return error;
}

const csvOf = (count: number): string => `n,name\n${[...items(count)].map(({ n, name }) => `${n},${name}\n`).join('')}`;

function* piecesOf(text: string): Generator<string> {
  for (let at = 0; at < text.length; at += 50_000) yield text.slice(at, at + 50_000);
}

describe('records', () => {
  it('of any number, from an iterable or an async one, with progress', async () => {
    for (const count of [0, 1, 25_000]) {
      for (const source of [items(count), later(count)]) {
        const name = await table();
        const rows: number[] = [];
        const onProgress = (progress: { rows: number }) => void rows.push(progress.rows);
        const result = await cdp.table<Item>(name).insertStream(source, { onProgress });
        expect(result).toMatchObject({ inserted: count, retries: 0, refused: 0 });
        if (count > 0) expect([rows.at(-1), result.chunks]).toEqual([count, Math.ceil(count / 10_000)]);
        expect(await counted(name)).toEqual(exactly(count));
      }
    }
  });

  it('are each stored once although the connection breaks in the middle, again and again', async () => {
    const name = await table();
    proxy.breakAfter = [500_000, 1_000, 3_000_000, 1, 2_000_000, 4_000_000];
    const result = await cdp.insertStream(name, items(200_000));
    expect(proxy.broken).toBe(6);
    expect(result).toMatchObject({ inserted: 200_000 });
    expect(result.retries).toBeGreaterThanOrEqual(6);
    expect(await counted(name)).toEqual(exactly(200_000));
  });

  it('update rows, or go to the quarantine', async () => {
    const name = await table('CREATE UNIQUE INDEX ON $table (n)');
    await cdp.insertStream(name, items(10));
    const result = await cdp.insertStream(name, [...items(12), { n: 'x' }], { onConflict: 'n', onError: 'quarantine' });
    expect(result).toMatchObject({ inserted: 2, updated: 10, ignored: 0, quarantined: 1 });
    expect(result.errors).toMatchObject([{ column: 'n' }]);
  });

  it('leave rows alone, merge objects, and keep fields that are no columns', async () => {
    const name = await table('CREATE UNIQUE INDEX ON $table (n)', 'ALTER TABLE $table ADD more jsonb');
    const options = { onConflict: 'n', unchanged: 'skip', mergeJson: true, unknown: 'into:more' } as const;
    await cdp.insertStream(name, [{ n: 1, plan: 'pro' }, { n: 2 }], options);
    const again = [{ n: 1, seats: 3 }, { n: 2 }];
    expect(await cdp.insertStream(name, again, options)).toMatchObject({ updated: 1, ignored: 0, unchanged: 1 });
    expect(await cdp.insert(name, again, options)).toMatchObject({ updated: 0, unchanged: 2 });
    expect(await cdp.insertBatch(name, again, options)).toMatchObject({ updated: 0, unchanged: 2 });
    const newest = { onConflict: 'n', resolution: 'newest', version: 'n2', unknown: 'ignore' } as const;
    await project.rows(`ALTER TABLE ${name} ADD n2 bigint`);
    expect(await cdp.insert(name, [{ n: 1, n2: 1, x: 1 }, { n: 2 }], newest)).toMatchObject({ updated: 1, ignored: 1 });
    expect(await project.rows(`SELECT n, n2, more FROM ${name} ORDER BY n`)).toEqual([
      { n: 1, n2: 1, more: { plan: 'pro', seats: 3 } },
      { n: 2, n2: null, more: null },
    ]);
  });

  it('of a source that pauses are sent before it goes on', { timeout: 30_000 }, async () => {
    const name = await table();
    const seen: unknown[] = [];
    const source = async function* () {
      yield { n: 1 };
      while ((seen.at(-1) as { rows: number } | undefined)?.rows !== 1) {
        await new Promise((resolve) => setTimeout(resolve, 50));
        seen.push(await counted(name));
      }
      yield { n: 2 };
    };
    expect(await cdp.insertStream(name, source())).toMatchObject({ inserted: 2, chunks: 2 });
  });

  it('are sent again as they were if the last answer is lost', { timeout: 30_000 }, async () => {
    const name = await table();
    let requests = 0;
    const forgetful = new CdpClient({
      url: service.url,
      token: project.token,
      fetch: async (input, init) => {
        const response = await fetch(input, init);
        if (requests++ > 0) return response;
        await response.text();
        throw new TypeError('lost');
      },
    });
    let letGo = () => {};
    const isHeld = new Promise<void>((resolve) => (letGo = resolve));
    const source = async function* () {
      yield { n: 1 };
      setTimeout(letGo, 7_000);
      await isHeld;
      yield { n: 2 };
    };
    expect(await forgetful.insertStream(name, source())).toMatchObject({ inserted: 2, retries: 1 });
    expect(await counted(name)).toEqual(exactly(2));
  });

  it('are sent in several requests if a proxy holds back the progress', async () => {
    const name = await table();
    const buffering = new CdpClient({
      url: service.url,
      token: project.token,
      // What the response says arrives at its end.
      fetch: async (input, init) => {
        const response = await fetch(input, init);
        const { status, headers } = response;
        return new Response(await response.text(), { status, headers });
      },
    });
    const long = 'x'.repeat(100_000);
    const source = Array.from({ length: 500 }, (_, n) => ({ n, name: long }));
    let requests = 0;
    const result = await buffering.insertStream(name, source, { onProgress: () => void requests++ });
    expect(result).toMatchObject({ inserted: 500 });
    expect(requests).toBeGreaterThan(1);
    expect(await counted(name)).toEqual(exactly(500));
  });
});

describe('refused records', () => {
  const load = async (name: string, source: Iterable<Item>, options: InsertStreamOptions<Item> = {}) => {
    const refused: RefusedRecord<Item>[] = [];
    const result = await cdp.insertStream(name, source, { ...options, onRefused: (each) => void refused.push(each) });
    return { result, refused };
  };

  it('are named by their position in the input, and the others are stored', async () => {
    const name = await table();
    const bad = (n: number) => n === 0 || n % 701 === 5 || n === 29_999;
    const source = [...items(30_000)].map((item, n) => (bad(n) ? { ...item, n: `bad ${n}` } : item));
    const { result, refused } = await load(name, source);
    const expected = source.flatMap((_, n) => (bad(n) ? [n] : []));
    expect(refused.map(({ index }) => index)).toEqual(expected);
    expect(refused[1]).toMatchObject({
      record: { n: 'bad 5' },
      errors: [{ record: 5, column: 'n', message: 'Record 5, column "n": "bad 5" is not an integer' }],
    });
    expect(result).toMatchObject({ refused: expected.length, inserted: 30_000 - expected.length });
    expect(await counted(name)).toEqual(exactly(30_000 - expected.length));
  });

  it('may be more than the service lists, or all', async () => {
    const name = await table();
    const half = [...items(3_000)].map((item, n) => (n % 2 === 0 ? item : { ...item, n: 'x' }));
    expect((await load(name, half)).refused).toHaveLength(1_500);
    expect(await counted(name)).toEqual(exactly(1_500));
    const { result } = await load(
      name,
      half.map(() => ({ n: 'x' })),
    );
    expect(result).toMatchObject({ inserted: 0, refused: 3_000 });
  });

  it('are found if their error does not name them', async () => {
    const name = await table(
      `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         IF EXISTS (SELECT FROM new_rows WHERE n IN (77, 1234)) THEN RAISE 'not these'; END IF; RETURN NULL; END $$`,
      `CREATE TRIGGER refuse AFTER INSERT ON $table REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION refuse()`,
    );
    const { refused } = await load(name, items(3_000));
    expect(refused.map(({ index }) => index)).toEqual([77, 1234]);
    expect(await counted(name)).toEqual(exactly(2_998));
  });

  it('are known after broken connections, too', async () => {
    const name = await table();
    const source = [...items(100_000)].map((item, n) => (n % 9_999 === 1 ? { ...item, n: `bad ${n}` } : item));
    proxy.breakAfter = [1_500_000, 700_000, 1_000, 900_000];
    const { refused } = await load(name, source);
    expect(refused.map(({ index }) => index)).toEqual(source.flatMap((_, n) => (n % 9_999 === 1 ? [n] : [])));
    expect(await counted(name)).toEqual(exactly(100_000 - refused.length));
  });

  it('end the stream if nobody takes them, and the error says what is stored', async () => {
    const name = await table();
    const source = [...items(20_000), { n: 'x' }, ...items(10)];
    const error = await caught(cdp.insertStream(name, source));
    expect(error).toMatchObject({
      code: 'invalid_value',
      inserted: 20_000,
      message: 'Record 20000, column "n": "x" is not an integer',
      errors: [{ record: 20_000, column: 'n' }],
    });
    expect(await counted(name)).toEqual(exactly(20_000));
    const unsendable = [{ n: 1 }, { n: () => 1 } as never];
    const place = { record: 1, column: 'n' };
    expect(await caught(cdp.insertStream(name, unsendable))).toMatchObject({ inserted: 1, errors: [place] });
  });
});

describe('failures', () => {
  it('of the source or a callback end the stream, and what is stored is known', async () => {
    const name = await table();
    const source = function* () {
      yield* items(15_000);
      throw new Error('no more');
    };
    const error = await caught(cdp.insertStream(name, source()));
    expect(error).toMatchObject({ code: 'caller_error', inserted: 15_000, cause: new Error('no more') });
    expect(await counted(name)).toEqual(exactly(15_000));
    const onProgress = () => {
      throw new Error('not interested');
    };
    expect(await caught(cdp.insertStream(name, items(1), { onProgress }))).toMatchObject({
      code: 'caller_error',
      cause: new Error('not interested'),
    });
  });

  it('of the options, of the table and of the token come at once', async () => {
    const name = await table();
    await expect(cdp.insertStream(name, { n: 1 } as never)).rejects.toThrow(TypeError);
    await expect(cdp.insertStream(name, [], { onprogress: 1 } as never)).rejects.toThrow('Did you mean "onProgress"?');
    await expect(cdp.insertStream(name, [], { onError: 'quarantine', onRefused: () => {} })).rejects.toThrow(TypeError);
    expect(await caught(cdp.insertStream('missing', items(100_000)))).toMatchObject({ code: 'table_not_found' });
    const reader = new CdpClient({ url: service.url, token: await project.tokenWith('sql:read') });
    expect(await caught(reader.insertStream(name, items(1)))).toMatchObject({ code: 'insufficient_scope' });
  });

  it('an abort ends it at once', async () => {
    const name = await table();
    const abort = new AbortController();
    const source = async function* () {
      yield* items(10);
      abort.abort(new Error('enough'));
      await new Promise(() => {});
    };
    const error = await caught(cdp.insertStream(name, source(), { signal: abort.signal }));
    expect(error).toMatchObject({ code: 'aborted', cause: new Error('enough') });
  });
});

describe('text', () => {
  const csv = csvOf(100_000);
  const contentType = 'text/csv';

  it('is sent as it is', async () => {
    const sources: TextSource[] = [csv, new Blob([csv]), piecesOf(csv), () => piecesOf(csv), [Buffer.from(csv)]];
    for (const source of sources) {
      const name = await table();
      const result = await cdp.insertStream(name, source, { contentType });
      expect(result).toMatchObject({ inserted: 100_000, bytes: Buffer.byteLength(csv) });
      expect(await counted(name)).toEqual(exactly(100_000));
    }
    const name = await table();
    const options = { contentType, delimiter: ';', null: 'NA' } as const;
    expect(await cdp.table(name).insertStream('n;name\n1;NA\n', options)).toMatchObject({ inserted: 1 });
    expect(await project.rows(`SELECT name FROM ${name}`)).toEqual([{ name: null }]);
  });

  it('goes on after broken connections if it can be read again', async () => {
    for (const source of [csv, () => piecesOf(csv)]) {
      const name = await table();
      proxy.breakAfter = [1_000_000, 1_000, 300_000];
      const result = await cdp.insertStream(name, source, { contentType });
      expect(result).toMatchObject({ inserted: 100_000, bytes: Buffer.byteLength(csv) });
      expect(proxy.broken).toBeGreaterThanOrEqual(2);
      proxy.broken = 0;
      expect(await counted(name)).toEqual(exactly(100_000));
    }
    const name = await table();
    proxy.breakAfter = [1_500_000];
    const options = { contentType, idempotencyKey: 'text-1' } as const;
    expect(await caught(cdp.insertStream(name, piecesOf(csv), options))).toMatchObject({ code: 'network_error' });
    // It may have been broken by what was meant for an earlier one.
    proxy.breakAfter = [];
    // Another process sends it again.
    expect(await cdp.insertStream(name, piecesOf(csv), options)).toMatchObject({ inserted: 100_000 });
    expect(await counted(name)).toEqual(exactly(100_000));
  });

  it('fails with the line of what is wrong, or with the error of the source', async () => {
    const name = await table();
    const error = await caught(cdp.insertStream(name, 'n\n1\nx\n', { contentType }));
    expect(error).toMatchObject({ code: 'invalid_value', inserted: 0, errors: [{ line: 3, column: 'n' }] });
    const source = function* () {
      yield 'n\n1\n';
      throw new Error('no more');
    };
    expect(await caught(cdp.insertStream(name, source, { contentType }))).toMatchObject({
      code: 'caller_error',
      cause: new Error('no more'),
    });
    expect(await counted(name)).toEqual(exactly(0));
  });
});

it('accepts records with a token that may only append, also after a broken connection', async () => {
  const name = await table();
  const append = new CdpClient({ url: proxy.url, token: await project.tokenWith('data:append') });
  expect(await append.insertStream(name, items(3_000))).toMatchObject({ inserted: 3_000 });
  proxy.breakAfter = [400_000];
  const text = () => piecesOf(csvOf(60_000));
  expect(await append.insertStream(name, text, { contentType: 'text/csv' })).toMatchObject({ inserted: 60_000 });
  expect(proxy.broken).toBe(1);
  expect(await counted(name)).toMatchObject({ rows: 63_000 });
});
