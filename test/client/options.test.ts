/** Misspelt options in JavaScript programs: they must not change what the caller only wanted to try. */
import { expect, it } from 'vitest';
import { CdpClient, type ClientOptions } from '../../src/client/index.js';

let sent = 0;
const cdp = new CdpClient({
  url: 'http://localhost',
  token: 'any',
  fetch: () => {
    sent++;
    return Promise.reject(new Error('This must not be sent'));
  },
  maxRetries: 0,
});

/** As JavaScript sees it: no types. */
type Untyped = Record<string, (...args: unknown[]) => Promise<unknown> & AsyncIterator<unknown>>;
const untyped = cdp as unknown as Untyped;
const customers = cdp.table('t') as unknown as Untyped;
const record = { email: 'a' };
const dry = { dry_run: true };
const said = (unknown: string, of: string, known: string) =>
  `Unknown option "${unknown}" of ${of}. Did you mean "${known}"?`;

const NO_PARAMS = 'sql`…` has its values in it, and takes no params: query(sql`…`, options)';

it.each<[string, unknown[], string]>([
  ['delete', ['t', [record], { by: 'email', ...dry }], said('dry_run', 'delete', 'dryRun')],
  [
    'delete',
    ['t', [record], { by: 'email', idempotency_key: 'k' }],
    said('idempotency_key', 'delete', 'idempotencyKey'),
  ],
  ['insert', ['t', [record], dry], said('dry_run', 'insert', 'dryRun')],
  ['insert', ['t', [record], { on_conflict: 'email' }], said('on_conflict', 'insert', 'onConflict')],
  ['insert', ['t', [], { on_error: 'quarantine' }], said('on_error', 'insert', 'onError')],
  ['insertBatch', ['t', [record], { idempotency_key: 'k' }], said('idempotency_key', 'insertBatch', 'idempotencyKey')],
  ['insertBatch', ['t', [record], { dryrun: true }], said('dryrun', 'insertBatch', 'dryRun')],
  ['createTable', [{ table_name: 't', columns: [] }, dry], said('dry_run', 'a schema call', 'dryRun')],
  ['alterTable', ['t', { comment: '' }, dry], said('dry_run', 'a schema call', 'dryRun')],
  ['addColumn', ['t', { name: 'a', type: 'TEXT' }, dry], said('dry_run', 'a schema call', 'dryRun')],
  ['alterColumn', ['t', 'a', { comment: '' }, dry], said('dry_run', 'a schema call', 'dryRun')],
  ['dropColumn', ['t', 'a', dry], said('dry_run', 'a schema call', 'dryRun')],
  ['dropTable', ['t', dry], said('dry_run', 'a schema call', 'dryRun')],
  ['distributeTable', ['t', { column: 'a' }, dry], said('dry_run', 'a schema call', 'dryRun')],
  ['createIndex', ['t', { columns: ['a'] }, dry], said('dry_run', 'a schema call', 'dryRun')],
  ['dropIndex', ['t', 'i', dry], said('dry_run', 'a schema call', 'dryRun')],
  ['replayQuarantine', [{ table: 't', ...dry }], said('dry_run', 'replayQuarantine', 'dryRun')],
  ['replayQuarantine', [{ table: 't', on_conflict: 'a' }], said('on_conflict', 'replayQuarantine', 'onConflict')],
  [
    'dropQuarantine',
    [{ all: true, dryRun: true }],
    'Unknown option "dryRun" of dropQuarantine. Known are table, error, column, since, until, id, all',
  ],
  ['dropQuarantine', [{ all: true }, dry], said('dry_run', 'dropQuarantine', 'dryRun')],
  ['receipt', ['t', 'k', { Settle: true }], said('Settle', 'receipts', 'settle')],
  [
    'receipt',
    ['t', 'k', { settle: true, dryRun: true }],
    'Unknown option "dryRun" of receipts. Known are signal, settle',
  ],
  ['receipts', ['t', ['k'], { Settle: true }], said('Settle', 'receipts', 'settle')],
  ['query', ['DELETE FROM t', [], dry], said('dry_run', 'a query', 'dryRun')],
  ['query', [cdp.sql`DELETE FROM t`, { maxRows: 1 }], said('maxRows', 'a query', 'max_rows')],
  ['query', [cdp.sql`DELETE FROM t`, [], { dryRun: true }], NO_PARAMS],
  ['query', [cdp.sql`DELETE FROM t`, undefined, { dryRun: true }], NO_PARAMS],
  ['query', [cdp.sql`DELETE FROM t`, ['a']], NO_PARAMS],
  ['queryJson', ['DELETE FROM t', [], dry], said('dry_run', 'a query', 'dryRun')],
  ['sqlArrays', ['DELETE FROM t', [], { readOnly: true }], said('readOnly', 'a query', 'read_only')],
  ['tables', [{ colour: 1 }], 'Unknown option "colour" of a schema call. Known are signal'],
  ['tables', [{ dryRun: true }], 'Unknown option "dryRun" of a schema call. Known are signal'],
  ['describe', ['t', { dryRun: true }], 'Unknown option "dryRun" of a schema call. Known are signal'],
  ['indexes', ['t', { dryRun: true }], 'Unknown option "dryRun" of a schema call. Known are signal'],
  ['dropTable', ['t', { colour: 1 }], 'Unknown option "colour" of a schema call. Known are signal, dryRun, return'],
  ['token', [{ colour: 1 }], 'Unknown option "colour" of token. Known are signal'],
  ['token', [{ dryRun: true }], 'Unknown option "dryRun" of token. Known are signal'],
])('%s rejects what it does not know, and sends nothing: %j', async (method, args, message) => {
  await expect(untyped[method]?.apply(cdp, args)).rejects.toThrow(new TypeError(message));
  expect(sent).toBe(0);
});

it.each<[string, unknown[], string]>([
  ['sqlStream', ['DELETE FROM t', [], { readOnly: true }], said('readOnly', 'a query', 'read_only')],
  ['sqlLines', ['DELETE FROM t', [], { readOnly: true }], said('readOnly', 'a query', 'read_only')],
  ['sqlCsv', ['DELETE FROM t', [], { readOnly: true }], said('readOnly', 'a query', 'read_only')],
  ['quarantine', [{ Table: 't' }], said('Table', 'quarantine', 'table')],
  ['quarantine', [{}, { dryRun: true }], 'Unknown option "dryRun" of quarantine. Known are signal'],
  ['quarantine', [{}, { Signal: 1 }], said('Signal', 'quarantine', 'signal')],
])('the first row of %s is such an error: %j', async (method, args, message) => {
  await expect(untyped[method]?.apply(cdp, args).next()).rejects.toThrow(new TypeError(message));
  expect(sent).toBe(0);
});

it('the handle of a table rejects too', async () => {
  await expect(customers.insert?.([record], dry)).rejects.toThrow(said('dry_run', 'insert', 'dryRun'));
  expect(sent).toBe(0);
});

it('dropQuarantine sends dryRun', async () => {
  const urls: string[] = [];
  const fetch = (url: unknown) => {
    urls.push(String(url));
    return Promise.resolve(Response.json({ success: true, deleted_rows: 2 }));
  };
  const client = new CdpClient({ url: 'http://localhost', token: 'any', fetch });
  await client.dropQuarantine({ all: true }, { dryRun: true });
  expect(urls).toEqual(['http://localhost/api/cdp/quarantine?all=true&dry_run=true']);
});

it.each<[object, string]>([
  [{ tokn: 'any' }, 'Unknown option "tokn" of CdpClient. Known are url, token, fetch, headers, maxRetries, timeoutMs'],
  [{ timeout_ms: 1 }, said('timeout_ms', 'CdpClient', 'timeoutMs')],
  [{ fetch: 'fetch' }, 'fetch must be a function'],
  [{ headers: { traceparent: 'a' } }, 'headers must be a function'],
  [{ maxRetries: '3' }, 'maxRetries: expected a number, 0 for none'],
  [{ maxRetries: NaN }, 'maxRetries: expected a number, 0 for none'],
  [{ maxRetries: -1 }, 'maxRetries: expected a number, 0 for none'],
  [{ timeoutMs: '100' }, 'timeoutMs: expected 1 to 2147483647 milliseconds'],
  [{ timeoutMs: Infinity }, 'timeoutMs: expected 1 to 2147483647 milliseconds'],
])('a client with %j is rejected', (options, message) => {
  const all = { url: 'http://localhost', token: 'any', ...options } as ClientOptions;
  expect(() => new CdpClient(all)).toThrow(new TypeError(message));
});
