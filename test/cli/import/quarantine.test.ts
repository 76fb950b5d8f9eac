/** `cdp import --on-conflict`, `--quarantine`, and `cdp quarantine` against a real service. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { person, type Person } from '../../support/cdp.js';
import { endEverything } from '../../support/program.js';
import { startTestService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;
let ada: Person;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  ada = await person({ CDP_URL: service.url, CDP_TOKEN: project.token });
  await project.table('people', { email: 'TEXT', age: 'INTEGER' });
  await ada.run(['index', 'create', 'people', 'email', '--unique']);
  await project.rows('ALTER TABLE people ADD CONSTRAINT young CHECK (age IS NULL OR age NOT BETWEEN 150 AND 299)');
});
afterAll(async () => {
  await endEverything();
  await service.close();
});

const load = (file: string, ...more: string[]) => ada.run(['import', file, '--table', 'people', ...more]);
const people = () => project.rows('SELECT email, age FROM people ORDER BY email');

it('updates rows, also within a file: the last record of a key wins', async () => {
  const lines = Array.from({ length: 600 }, (_, i) => JSON.stringify({ email: `p${i % 300}`, age: i < 300 ? 1 : 2 }));
  await ada.write('first.ndjson', lines.join('\n'));
  expect(await load('first.ndjson', '--on-conflict', 'email')).toMatchObject({ code: 0 });
  expect(await project.rows('SELECT count(*) AS n, min(age) AS age FROM people')).toEqual([{ n: 300, age: 2 }]);
  const again = await load('first.ndjson', '--on-conflict', 'email', '--resolution', 'ignore', '--json');
  expect(JSON.parse(again.stdout)).toMatchObject({ inserted: 0, updated: 0, ignored: 600 });
  await project.rows('DELETE FROM people');
});

it('keeps refused records, and lists, shows, stores and deletes them', async () => {
  await ada.write('bad.ndjson', '{"email":"a","age":200}\n{"email":"a","age":1}\n{"email":"b","age":2}\n');
  const { code, stdout, stderr } = await load('bad.ndjson', '--quarantine');
  expect({ code, stdout, stderr }).toMatchObject({
    code: 4,
    stdout: expect.stringContaining('2 rows stored in people, 0 refused, 1 quarantined') as string,
    stderr: expect.stringContaining('quarantine list --table people') as string,
  });
  const [kept] = JSON.parse(await ada.output('quarantine', 'list', '--table', 'people', '--json')) as { id: string }[];
  expect(await ada.output('quarantine', 'show', kept?.id ?? '')).toContain('{"email":"a","age":200}');
  expect(await ada.output('quarantine', 'list')).toContain('young');
  const again = await ada.run(['quarantine', 'replay', '--table', 'people']);
  expect(again).toMatchObject({ code: 4, stdout: expect.stringContaining('1 refused again') as string });
  const options = ['--rename', 'email=age', '--rename', 'age=email', '--set', 'email=a,b=c', '--set', 'age=9'];
  const replay = ['quarantine', 'replay', '--table', 'people', ...options];
  expect(await ada.output(...replay, '--dry-run')).toContain(
    '1 row inserted, 0 updated, 0 ignored, 0 refused again. Ev',
  );
  expect(await ada.output('quarantine', 'drop', '--all', '--dry-run')).toContain(
    '1 row deleted from the quarantine. Ev',
  );
  const replayed = await ada.output(...replay);
  expect(replayed).toContain('1 row inserted, 0 updated');
  expect(await people()).toEqual([
    { email: 'a', age: 1 },
    { email: 'a,b=c', age: 9 },
    { email: 'b', age: 2 },
  ]);
  expect(await ada.run(['quarantine', 'drop'])).toMatchObject({ code: 2 });
  expect(await ada.output('quarantine', 'drop', '--all')).toContain('0 rows deleted');
});

it('leaves equal and newer rows alone, and merges objects', async () => {
  await project.table('shops', { k: 'TEXT', at: 'INTEGER', more: 'JSONB' });
  await ada.run(['index', 'create', 'shops', 'k', '--unique']);
  const shops = (...more: string[]) =>
    ada.output('import', 'shops.ndjson', '--table', 'shops', '--on-conflict', 'k', '--json', ...more);
  const write = (at: number, more: object) => ada.write('shops.ndjson', `${JSON.stringify({ k: 'a', at, more })}\n`);
  await write(2, { a: 1 });
  expect(JSON.parse(await shops('--skip-unchanged'))).toMatchObject({ inserted: 1, unchanged: 0 });
  expect(JSON.parse(await shops('--skip-unchanged'))).toMatchObject({ updated: 0, ignored: 0, unchanged: 1 });
  await write(1, { a: 9 });
  const newest = ['--resolution', 'newest', '--version-column', 'at'];
  expect(JSON.parse(await shops(...newest))).toMatchObject({ updated: 0, ignored: 1 });
  await write(3, { b: 2 });
  expect(JSON.parse(await shops(...newest, '--merge-json'))).toMatchObject({ updated: 1 });
  expect(await project.rows('SELECT k, at, more FROM shops')).toEqual([{ k: 'a', at: 3, more: { a: 1, b: 2 } }]);
});

it.each([
  [['--skip-unchanged'], '--skip-unchanged needs --on-conflict'],
  [['--on-conflict', 'email', '--resolution', 'newest'], 'need each other'],
  [['--on-conflict', 'email', '--version-column', 'age'], 'need each other'],
  [['--unknown', 'keep'], 'Expected "ignore", or "into:"'],
])('refuses to import with %j', async (words, message) => {
  await ada.write('one.ndjson', '{"email":"z"}\n');
  const { code, stderr } = await load('one.ndjson', ...words);
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(message) as string });
  expect(await project.rows("SELECT FROM people WHERE email = 'z'")).toEqual([]);
});

it('leaves out fields that are no columns, or keeps them in a column', async () => {
  await project.table('wide', { email: 'TEXT', extra: 'JSONB' });
  const into = (file: string, ...more: string[]) => ada.run(['import', file, '--table', 'wide', ...more]);
  const wide = () => project.rows('SELECT email, extra FROM wide ORDER BY email');
  await ada.write('wide.csv', 'email,First Name,seats\na,Ann,3\nb,,\n');
  await ada.write('wide.ndjson', '{"email":"c","plan":"pro"}\n{"email":"d"}\n');
  expect(await into('wide.csv')).toMatchObject({ code: 2, stderr: expect.stringContaining('--unknown') as string });
  for (const file of ['wide.csv', 'wide.ndjson'])
    expect(await into(file, '--unknown', 'ignore')).toMatchObject({ code: 0 });
  expect(await wide()).toEqual(['a', 'b', 'c', 'd'].map((email) => ({ email, extra: null })));
  await project.rows('DELETE FROM wide');
  for (const file of ['wide.csv', 'wide.ndjson'])
    expect(await into(file, '--unknown', 'into:extra')).toMatchObject({ code: 0 });
  expect(await wide()).toEqual([
    { email: 'a', extra: { 'First Name': 'Ann', seats: 3 } },
    { email: 'b', extra: null },
    { email: 'c', extra: { plan: 'pro' } },
    { email: 'd', extra: null },
  ]);
});

it('keeps all refused records in the quarantine: with fields that are no columns, and lines that are no records', async () => {
  await project.rows('DELETE FROM _cdp.quarantine');
  await project.table('strict', { email: 'TEXT', more: 'JSONB' });
  const into = (file: string, ...more: string[]) =>
    ada.run(['import', file, '--table', 'strict', '--quarantine', ...more]);
  const kept = async () =>
    (await project.rows('SELECT record FROM _cdp.quarantine ORDER BY id')).map(
      ({ record }) => JSON.parse(String(record)) as unknown,
    );
  await ada.write('strict.ndjson', '{"email":"a","plan":"pro"}\n{"email":"b"}\nnot json\n[1]\n');
  await ada.write('strict.csv', 'email,more,plan\nc,{},\nd,{,\ne,1,pro\nf,1,2,3,4\n');
  for (const [file, refused] of [
    ['strict.ndjson', 3],
    ['strict.csv', 3],
  ] as const) {
    const tried = await into(file, '--dry-run', '--json');
    expect(JSON.parse(tried.stdout)).toMatchObject({
      inserted: 1,
      refused: 0,
      quarantined: refused,
      refused_file: null,
    });
    const { code, stderr } = await into(file);
    expect({ code, stderr }).toEqual({ code: 4, stderr: expect.not.stringContaining('.refused.') as string });
    expect(stderr.match(/quarantine list/g)).toHaveLength(1);
  }
  expect(await project.rows('SELECT email FROM strict ORDER BY 1')).toEqual([{ email: 'b' }, { email: 'c' }]);
  expect(await kept()).toEqual([
    ...[{ email: 'a', plan: 'pro' }, 'not json', '[1]'],
    ...[[{ email: 'd', more: '{' }], { email: 'e', more: 1, plan: 'pro' }, ['f', '1', '2', '3', '4']],
  ]);
  await project.rows('DELETE FROM _cdp.quarantine');
});

it('says if a filter matches nothing, and fails', async () => {
  for (const [action, ...filter] of [
    ['drop', '--table', 'poeple'],
    ['replay', '--table', 'people', '--column', 'agee'],
    ['replay', '--table', 'people', '--column', 'agee', '--dry-run'],
  ]) {
    const { code, stderr } = await ada.run(['quarantine', action ?? '', ...filter]);
    expect({ code, stderr }).toEqual({ code: 1, stderr: 'cdp: The filter matches no record in the quarantine\n' });
  }
  expect(await ada.output('quarantine', 'replay', '--table', 'people')).toContain('0 rows inserted');
});

it.each([
  [['replay', '--set', 'age'], 'Expected COLUMN=VALUE.'],
  [['replay', '--set', '=1'], 'Expected COLUMN=VALUE.'],
  [['replay', '--set-sql', 'a'], 'Expected COLUMN=VALUE.'],
  [['replay', '--record', '{'], 'Expected JSON.'],
  [['replay', '--record', '{}'], '--record needs --id'],
  [['replay', '--set', 'a=1', '--set', 'a=2'], '"a" has two values.'],
  [['replay', '--rename', 'shop'], 'Expected OLD=NEW.'],
  [['replay', '--rename', '=note'], 'Expected OLD=NEW.'],
  [['replay', '--rename', 'a=x', '--rename', 'a=y'], '"a" has two new names.'],
  [
    ['replay', '--on-conflict', 'email', '--resolution', 'never'],
    'Allowed choices are merge, replace, ignore, newest.',
  ],
  [['list', '--id', 'first'], 'Expected an ID'],
])('refuses cdp quarantine %j', async (words, message) => {
  const { code, stderr } = await ada.run(['quarantine', ...words, '--table', 'people']);
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(message) as string });
});

it('says that a record does not exist', async () => {
  const id = '01a1fd4a-ba32-726b-b7d9-cf4374f5ddde';
  expect(await ada.run(['quarantine', 'show', id])).toMatchObject({ code: 1 });
});

it('counts refused records in groups, and corrects them', async () => {
  await project.rows('DELETE FROM _cdp.quarantine; DELETE FROM people');
  await ada.write(
    'fix.ndjson',
    '{"email":"a","age":"x","years":"7"}\n{"email":"b","nope":1}\n{"email":"c","nope":2}\n',
  );
  await load('fix.ndjson', '--quarantine');
  const groups = JSON.parse(await ada.output('quarantine', 'list', '--group', '--json')) as object[];
  expect(groups).toMatchObject([
    { table: 'people', error: 'unknown_column', column: 'nope', count: 2 },
    { error: 'invalid_value', column: 'age', count: 1 },
    { error: 'unknown_column', column: 'years', count: 1 },
  ]);
  expect(await ada.output('quarantine', 'list', '--group', '--table', 'people')).toContain('unknown_column');
  const replay = (...more: string[]) => ada.output('quarantine', 'replay', '--table', 'people', ...more);
  expect(await replay('--column', 'nope', '--drop-key', 'nope')).toContain('2 rows inserted');
  const corrections = [
    '--set-from',
    'email=years',
    '--set-sql',
    "age=(record->>'years')::int + 1",
    '--drop-key',
    'years',
  ];
  expect(await replay(...corrections, '--dry-run')).toContain('1 row inserted');
  const [{ id } = { id: '' }] = JSON.parse(await ada.output('quarantine', 'list', '--json')) as { id: string }[];
  expect(await replay('--id', id, '--record', '{"email":"d","age":12345678901234567}')).toContain('1 row inserted');
  expect(await project.rows('SELECT email, age::text AS age FROM people ORDER BY email')).toEqual([
    { email: 'b', age: null },
    { email: 'c', age: null },
    { email: 'd', age: '12345678901234567' },
  ]);
});

it('creates the unique index of a new table', async () => {
  await ada.write('new.ndjson', '{"shop":1,"no":1}\n{"shop":1,"no":1}\n');
  const words = ['import', 'new.ndjson', '--table', 'orders', '--create', '--on-conflict', 'shop,no', '--quarantine'];
  const preview = await ada.output(...words, '--preview');
  expect(preview).toContain('POST /api/cdp/schema/table/orders/index\n{"columns":["shop","no"],"unique":true}\n');
  expect(preview).toContain('POST /api/cdp/data/orders?on_conflict=shop%2Cno&on_error=quarantine\n');
  expect(await ada.output(...words)).toContain('1 row stored in orders, 1 updated, 0 ignored, 0 refused');
});

it.each([
  [['--on-conflict', 'age'], 'cdp index create people age --unique'],
  [['--on-conflict', 'emial'], 'Did you mean "email"?'],
  [['--on-conflict', 'phone'], 'no field goes to a column "phone"'],
  [['--on-conflict', 'Email', '--table', 'unborn', '--create'], 'Did you mean "email"?'],
  [['--quarantine', '--strict'], "cannot be used with option '--strict'"],
  [['--quarantine', '--refused', 'x'], "cannot be used with option '--refused <FILE>'"],
])('refuses %j before it changes anything', async (words, message) => {
  await ada.write('two.ndjson', '{"email":"c","age":1}\n');
  const { code, stderr } = await load('two.ndjson', ...words);
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(message) as string });
  expect(await ada.output('tables')).not.toContain('unborn');
  expect((await load('two.ndjson', '--resume')).stderr).toContain('There is no interrupted import of these files');
});

it('resumes only with the options that the import was started with, and names them', async () => {
  await ada.write('strict.ndjson', '{"email":"r","age":200}\n{"email":"s","age":1}\n');
  const started = await load('strict.ndjson', '--on-conflict', 'email', '--strict');
  const advised = 'cdp import strict.ndjson --table people --on-conflict email --resume';
  expect(started).toMatchObject({ code: 1, stderr: expect.stringContaining(advised) as string });
  for (const [words, message] of [
    [['--on-conflict', 'age'], '--on-conflict cannot change: the import was started with email'],
    [['--on-conflict', 'email', '--resolution', 'ignore'], '--resolution cannot change'],
    [['--quarantine'], '--quarantine cannot change: the import was started without it'],
  ] as const) {
    const { code, stderr } = await load('strict.ndjson', '--resume', ...words);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(message) as string });
  }
  const { code, stdout, stderr } = await load('strict.ndjson', '--resume');
  expect({ code, stdout, stderr }).toEqual({
    code: 4,
    stdout: expect.stringContaining('1 row stored in people, 0 updated, 0 ignored, 1 refused') as string,
    stderr: expect.stringContaining('strict.ndjson.refused.ndjson --table people --on-conflict email') as string,
  });
});

it('refuses --resolution without --on-conflict', async () => {
  await ada.write('one.ndjson', '{"email":"c"}\n');
  expect(await load('one.ndjson', '--resolution', 'ignore')).toMatchObject({ code: 2 });
});

it('a dry run of an import and of SQL counts everything and stores nothing', async () => {
  const before = await people();
  await ada.write('tried.ndjson', '{"email":"x","age":1}\n{"email":"y","age":200}\n');
  const { code, stdout } = await load('tried.ndjson', '--dry-run');
  expect({ code, stdout }).toEqual({
    code: 4,
    stdout: expect.stringContaining('1 row could be stored in people, 1 refused') as string,
  });
  const sql = await ada.output('sql', '--dry-run', "INSERT INTO people (email) VALUES ('z')");
  expect(sql).toContain('people: 1 inserted, 0 updated, 0 deleted');
  expect(await people()).toEqual(before);
});
