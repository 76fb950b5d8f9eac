/** Fields that no column of the table has: refused, left out, or collected in a JSONB column. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  await project.table('people', { email: 'TEXT', age: 'INTEGER', extra: 'JSONB' });
  await project.rows('CREATE UNIQUE INDEX ON people (email); ALTER TABLE people ADD odd numeric');
});
beforeEach(() => project.rows('DELETE FROM people; DELETE FROM _cdp.quarantine'));
afterAll(() => service.close());

const send = (body: unknown, query: string, headers: Record<string, string> = {}, token = project.token) =>
  project.call('POST', `/api/cdp/data/people?${query}`, { body, headers, token });
const people = () => project.rows('SELECT email, age, extra FROM people ORDER BY email');
const [A, B, C] = ['a', 'b', 'c'].map((email) => ({ email, age: 1 })) as [object, object, object];
const BIG = '12345678901234567890.123';

it('ignores them', async () => {
  const { status, body } = await send([A, { ...B, plan: 'pro', Age: 7 }], 'unknown=ignore');
  expect([status, body.inserted_rows]).toEqual([201, 2]);
  expect(await people()).toEqual([A, B].map((one) => ({ ...one, extra: null })));
});

it('collects them as they were sent, beside what the column has', async () => {
  const records = `[{"email":"a","age":1},{"email":"b","plan":"pro","seats":${BIG},"more":{"x":[1,null]},"none":null},
    {"email":"c","extra":{"plan":"own","z":1},"plan":"sent","q\\"":2},{"email":"d","extra":null,"n":1},{"email":"e","extra":{ },"n":1}]`;
  const { status } = await send(records, 'unknown=into:extra');
  expect(status).toBe(201);
  expect(await project.rows('SELECT email, extra::text AS extra FROM people ORDER BY email')).toEqual([
    { email: 'a', extra: null },
    { email: 'b', extra: `{"more": {"x": [1, null]}, "none": null, "plan": "pro", "seats": ${BIG}}` },
    { email: 'c', extra: '{"z": 1, "q\\"": 2, "plan": "own"}' },
    { email: 'd', extra: '{"n": 1}' },
    { email: 'e', extra: '{"n": 1}' },
  ]);
});

it('in upserts, where they can be merged into what the row has', async () => {
  const query = 'on_conflict=email&merge_json=true&unchanged=skip&unknown=into:extra';
  await send([{ ...A, plan: 'pro' }], query);
  await send([{ ...A, seats: 3 }], query);
  const { body } = await send([{ ...A, seats: 3 }], query);
  expect(body.unchanged_rows).toBe(1);
  expect(await people()).toEqual([{ ...A, extra: { plan: 'pro', seats: 3 } }]);
});

it.each(['', '&atomic=true'])('in streams of NDJSON and CSV%s', async (atomic) => {
  const csv = 'email,plan,age,seats\na,pro,1,\nb,"",2,3\n';
  const ndjson = `${JSON.stringify({ email: 'c', n: 1 })}\n${JSON.stringify({ email: 'd' })}\n`;
  const stream = (body: string, type: string, query: string) =>
    send(body, query + atomic, { 'content-type': type, 'idempotency-key': `${type}${query}${atomic}` });
  for (const [body, type] of [
    [csv, 'text/csv'],
    [ndjson, 'application/x-ndjson'],
  ] as const) {
    expect((await stream(body, type, 'unknown=into:extra')).body.inserted_rows).toBe(2);
    expectFailure(await stream(body, type, 'unknown=into:extras'), 400, 'unknown_column');
  }
  expect(await people()).toEqual([
    { email: 'a', age: 1, extra: { plan: 'pro', seats: null } },
    { email: 'b', age: 2, extra: { plan: '', seats: '3' } },
    { email: 'c', age: null, extra: { n: 1 } },
    { email: 'd', age: null, extra: null },
  ]);
  await project.rows('DELETE FROM people');
  await stream(csv, 'text/csv', 'unknown=ignore');
  await stream(ndjson, 'application/x-ndjson', 'unknown=ignore');
  expect((await people()).map(({ extra }) => extra)).toEqual([null, null, null, null]);
});

it('for a token that may only append, in a dry run, and in a replay', async () => {
  const token = await project.tokenWith('data:append');
  expect((await send([{ ...A, plan: 'pro' }], 'unknown=into:extra', {}, token)).body.accepted_rows).toBe(1);
  expect((await send([{ ...B, plan: 'pro' }], 'unknown=into:extra&dry_run=true')).body.inserted_rows).toBe(1);
  expect(await people()).toEqual([{ ...A, extra: { plan: 'pro' } }]);
  await send([{ ...C, plan: 'pro' }], 'on_error=quarantine');
  const replay = (unknown: string) =>
    project.call('POST', '/api/cdp/quarantine/replay', { body: { table: 'people', unknown } });
  expect((await replay('into:extra')).body.inserted_rows).toBe(1);
  expect((await people()).map(({ extra }) => extra)).toEqual([{ plan: 'pro' }, { plan: 'pro' }]);
  expectFailure(await replay('into:age'), 400, 'invalid_request');
});

it('keeps a record that is wrong otherwise in the quarantine, with all that was sent', async () => {
  const { body } = await send(
    [
      { ...A, plan: 'pro' },
      { email: 'b', age: 'old', plan: 'pro' },
    ],
    'unknown=ignore&on_error=quarantine',
  );
  expect([body.inserted_rows, body.quarantined_rows]).toEqual([1, 1]);
  expect(await project.rows('SELECT record::jsonb AS record FROM _cdp.quarantine')).toEqual([
    { record: { email: 'b', age: 'old', plan: 'pro' } },
  ]);
});

describe('refuses', () => {
  it.each([
    ['', 'unknown_column', 'has no column "plan"'],
    ['unknown=into:extras', 'unknown_column', 'Did you mean "extra"'],
    ['unknown=into:age', 'invalid_request', 'column "age" is INTEGER, not JSONB'],
    ['unknown=into:odd', 'invalid_request', 'column "odd" is numeric, not JSONB'],
    ['unknown=into:', 'invalid_request', 'unknown'],
    ['unknown=keep', 'invalid_request', 'unknown'],
  ])('%s, whether or not a record has such fields', async (query, code, text) => {
    const { message, hint = '' } = expectFailure(await send([{ ...A, plan: 'pro' }], query), 400, code);
    expect(`${message} ${hint}`).toContain(text);
    if (query !== '') expectFailure(await send([A], query), 400, code);
    expect(await people()).toEqual([]);
  });

  it.each([
    [{ extra: [1], plan: 1 }, 'collects the fields that are no columns'],
    [{ plan: '\u0000' }, 'U+0000'],
    [{ 'a\u0000': 1 }, 'U+0000'],
    [{ plan: 'x', age: 'old' }, 'is not an integer'],
  ])('%j', async (record, text) => {
    const failure = expectFailure(await send([A, record], 'unknown=into:extra'), 400, 'invalid_value');
    expect(failure.message).toContain(text);
    expect(failure.errors?.[0]?.record).toBe(1);
    expect(await people()).toEqual([]);
  });
});

it('is another request under the same Idempotency-Key', async () => {
  const headers = { 'idempotency-key': 'unknown' };
  await send([A], 'unknown=ignore', headers);
  expectFailure(await send([A], '', headers), 422, 'idempotency_key_reused');
});
