/** Changes and snapshots through the client: over connections that break, and over a service that is killed. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { CdpClient, CdpError, type Change } from '../../src/client/index.js';
import { type Fault, type FaultyProxy, startFaultyProxy } from '../support/faulty-proxy.js';
import { endEverything, firstToken, freePort, preparedDataDir, startServe } from '../support/program.js';
import { startOwnService, type TestProject, type TestService } from '../support/service.js';

let service: TestService;
let project: TestProject;
let proxy: FaultyProxy;
let cdp: CdpClient;

beforeAll(async () => {
  service = await startOwnService();
  project = await service.project();
  await project.table('items', { n: 'INTEGER' });
  await project.table('others', { n: 'INTEGER' });
  proxy = await startFaultyProxy(service.url);
  cdp = new CdpClient({ url: proxy.url, token: project.token });
});
afterEach(() => {
  proxy.plan = () => undefined;
  proxy.seen.length = 0;
});
afterAll(async () => {
  await endEverything();
  await proxy.close();
  await service.close();
});

const insert = (from: number, to: number, table = 'items') =>
  project.rows(`INSERT INTO ${table} (n) SELECT generate_series(${from}, ${to - 1}) RETURNING n`);

const upTo = (count: number, from = 0): number[] => Array.from({ length: count }, (_, n) => n + from);

const numberOf = ({ record }: Change): number => (record as { n: number }).n;

async function take(changes: AsyncIterable<Change>, count: number): Promise<Change[]> {
  const taken: Change[] = [];
  for await (const change of changes) if (taken.push(change) === count) break;
  return taken;
}

async function caught(work: Promise<unknown>): Promise<CdpError> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof CdpError)) throw new Error(`Expected a CdpError, got ${String(error)}`, { cause: error });
  return error;
}

describe('the feed', () => {
  it('is turned on, shown, changed and turned off', async () => {
    expect(await cdp.feed()).toBe(null);
    expect(await caught(cdp.changesPage())).toMatchObject({ code: 'not_found' });
    const defaults = { tables: 'all', old: false, retention_hours: 72, retention_mib: 1_024, status: 'reading' };
    expect(await cdp.setFeed()).toMatchObject(defaults);
    expect(await cdp.setFeed({ retention_hours: 5 })).toMatchObject({ ...defaults, retention_hours: 5 });
    expect(await cdp.feed()).toMatchObject({ retention_hours: 5 });
    await cdp.dropFeed();
    expect(await cdp.feed()).toBe(null);
    await cdp.setFeed();
  });
});

describe('changes', () => {
  it('come in order, from the cursor on, of the tables that are wanted', async () => {
    const { changes, cursor } = await cdp.changesPage();
    expect(changes).toEqual([]);
    await insert(0, 5);
    await insert(0, 5, 'others');
    await insert(5, 10);
    const taken = await take(cdp.changes({ after: cursor, tables: ['items'], limit: 3 }), 10);
    expect(taken.map(numberOf)).toEqual(upTo(10));
    expect(taken[0]).toMatchObject({ op: 'insert', table: 'items', key: { id: expect.any(String) as string } });
    const middle = taken[6]?.cursor as string;
    expect((await take(cdp.changes({ after: middle, tables: ['items'] }), 3)).map(numberOf)).toEqual([7, 8, 9]);
    const page = await cdp.changesPage({ after: middle, tables: ['others'] });
    expect(page).toMatchObject({ changes: [], cursor: taken.at(-1)?.cursor });
  });

  it('are waited for', async () => {
    const changes = cdp.changes({ tables: ['items'] });
    const first = changes.next();
    await new Promise((resolve) => setTimeout(resolve, 300));
    await insert(100, 101);
    expect(numberOf((await first).value as Change)).toBe(100);
    await changes.return();
  });

  it('come once each, although requests are lost, cut off and refused', async () => {
    const { cursor } = await cdp.changesPage();
    const faults: (Fault | undefined)[] = [
      'drop-before',
      'drop-after',
      'cut',
      'bad-gateway',
      'unavailable',
      'rate-limit',
    ];
    proxy.plan = ({ url }) => (url?.startsWith('/api/cdp/changes') ? faults.shift() : undefined);
    await insert(0, 25);
    const taken = await take(cdp.changes({ after: cursor, limit: 4 }), 25);
    expect(taken.map(numberOf)).toEqual(upTo(25));
    expect(proxy.seen.filter(({ fault }) => fault !== undefined)).toHaveLength(6);
  });

  it('begin with the loop, also if its first answers are lost while it waits', async () => {
    let begun = false;
    proxy.plan = ({ url }) => {
      if (url?.includes('after=') !== true || begun) return undefined;
      begun = true;
      return 'drop-before';
    };
    const changes = cdp.changes({ tables: ['items'] });
    const first = changes.next();
    for (const until = Date.now() + 20_000; !begun && Date.now() < until;)
      await new Promise((resolve) => setTimeout(resolve, 5));
    await insert(0, 1);
    expect(numberOf((await first).value as Change)).toBe(0);
    await changes.return();
  });

  it('end with the signal, and with an error that says how to go on if they are gone', async () => {
    const controller = new AbortController();
    const waiting = caught(take(cdp.changes({ signal: controller.signal }), 1));
    setTimeout(() => controller.abort(), 300);
    expect(await waiting).toMatchObject({ code: 'aborted' });
    const gone = await caught(take(cdp.changes({ after: '00000000.1.0' }), 1));
    expect(gone).toMatchObject({ code: 'cursor_expired', status: 410 });
    expect(gone.hint).toContain('/api/cdp/changes/snapshot?table=');
  });

  it('refuse options that do not exist, and what is no cursor', async () => {
    await expect(take(cdp.changes({ table: 'items' } as object), 1)).rejects.toThrow('Unknown option "table"');
    await expect(cdp.changesPage({ waits: 1 } as object)).rejects.toThrow('Unknown option "waits"');
    expect(await caught(cdp.changesPage({ after: 'now' }))).toMatchObject({ code: 'invalid_request' });
    expect(await caught(cdp.changesPage({ wait: 61 }))).toMatchObject({ code: 'invalid_request' });
  });

  it('go on over a service that is killed and starts again', { timeout: 120_000 }, async () => {
    const dataDir = await preparedDataDir();
    const port = String(await freePort());
    const settings = ['--data-dir', dataDir, '--port', port];
    let running = await startServe(settings);
    const owner = new CdpClient({ url: running.url, token: await firstToken(dataDir), maxRetries: 100 });
    await owner.createTable({ table_name: 'items', columns: [{ name: 'n', type: 'INTEGER' }] });
    await owner.setFeed();
    const { cursor } = await owner.changesPage();
    const taking = take(owner.changes({ after: cursor, limit: 7 }), 100);
    for (let n = 0; n < 100; n += 25) {
      await owner.insert(
        'items',
        upTo(25, n).map((value) => ({ n: value })),
      );
      if (n > 50) continue;
      running.process.kill('SIGKILL');
      await running.ended;
      running = await startServe(settings);
    }
    expect((await taking).map(numberOf)).toEqual(upTo(100));
  });
});

describe('a snapshot', () => {
  it('has all rows, and a cursor from which exactly the other changes follow', async () => {
    await project.rows('TRUNCATE items');
    await insert(0, 1_000);
    const snapshot = await cdp.snapshot<{ n: number }>('items');
    await insert(1_000, 1_003);
    const rows: number[] = [];
    for await (const { n } of snapshot) rows.push(n);
    expect(rows.sort((a, b) => a - b)).toEqual(upTo(1_000));
    const changes = await take(cdp.changes({ after: snapshot.cursor, tables: ['items'] }), 3);
    expect(changes.map(numberOf)).toEqual(upTo(3, 1_000));
  });

  it('of an empty table has a cursor and no row; one of none is an error, as is one that is cut off', async () => {
    await project.table('nothing', { n: 'INTEGER' });
    const snapshot = await cdp.snapshot('nothing');
    expect(snapshot.cursor).toMatch(/^[0-9a-f]{8}\./);
    for await (const row of snapshot) expect(row).toBe(undefined);
    expect(await caught(cdp.snapshot('missing'))).toMatchObject({ code: 'table_not_found' });
    proxy.plan = () => 'cut';
    const once = new CdpClient({ url: proxy.url, token: project.token, maxRetries: 0 });
    const cut = async () => {
      for await (const row of await once.snapshot('items')) expect(row).toHaveProperty('n');
    };
    expect(await caught(cut())).toMatchObject({ code: 'network_error' });
  });
});
