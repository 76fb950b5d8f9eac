/** `cdp import` against a real service: values, names, refused records, interruptions. */
import { execFile } from 'node:child_process';
import { appendFileSync, readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { person, type Person } from '../../support/cdp.js';
import { type BreakingProxy, startBreakingProxy } from '../../support/breaking-proxy.js';
import { type FaultyProxy, startFaultyProxy } from '../../support/faulty-proxy.js';
import { endEverything, eventually, projectRoot } from '../../support/program.js';
import { expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';
import { columnTypes } from '../../support/tables.js';

let service: TestService;
let project: TestProject;
let proxy: FaultyProxy;
let ada: Person;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  proxy = await startFaultyProxy(service.url);
  ada = await person({ CDP_URL: proxy.url, CDP_TOKEN: project.token });
});
afterAll(async () => {
  await endEverything();
  await proxy.close();
  await service.close();
});

const load = (file: string, table: string, ...more: string[]) => ada.run(['import', file, '--table', table, ...more]);
const types = (table: string) => columnTypes(project, table);

describe('an import works', () => {
  it('with CSV: names, types, NULL and "", quotes and line breaks', async () => {
    await ada.write(
      'people.csv',
      '\uFEFFCustomer ID,Score (0-10),id,Größe,Since,Active,Big,Note,Note,2020\r\n' +
        '007,9.5,a,1,2026-01-31,true,9223372036854775808,"say ""hi""\nthere",,\r\n' +
        '008,8,b,2,2026-01-31T09:30:00.123456+02:00,FALSE,1,"",x,\r\n',
    );
    expect(await load('people.csv', 'people', '--create')).toMatchObject({ code: 0 });
    expect(await types('people')).toEqual({
      id: 'uuid',
      customer_id: 'text',
      score_0_10: 'double precision',
      id_2: 'text',
      grosse: 'bigint',
      since: 'timestamp with time zone',
      active: 'boolean',
      big: 'text',
      note: 'text',
      note_2: 'text',
      _2020: 'text',
    });
    const [first, second] = await project.rows('SELECT * FROM people ORDER BY customer_id');
    expect(first).toMatchObject({
      customer_id: '007',
      note: 'say "hi"\nthere',
      note_2: null,
      big: '9223372036854775808',
    });
    expect(second).toMatchObject({
      active: false,
      note: '',
      note_2: 'x',
      since: '2026-01-31T07:30:00.123456Z',
      _2020: null,
    });
  });

  it('with NDJSON, a JSON array, TSV, gzip, standard input and another encoding', async () => {
    const json = '{"User Name":"a","n":9007199254740993,"tags":["x"],"price":0.1}';
    await ada.write('one.ndjson', `${json}\n\n${json}`);
    await ada.write('two.json', ` [\n${json},\n${json.replace(',"price":0.1', ',"price":1')} ]\n`);
    await ada.write('three.tsv.gz', gzipSync('user_name\tn\n"b"\t5\n'));
    await ada.write('four.txt', Buffer.from('user_name;n\ncaf\u00e9;6\n', 'latin1'));
    for (const [file, ...more] of [
      ['one.ndjson', '--create'],
      ['two.json'],
      ['three.tsv.gz'],
      ['four.txt', '--encoding', 'windows-1252'],
    ] as const) {
      expect(await load(file, 'mixed', ...more), file).toMatchObject({ code: 0 });
    }
    const piped = await ada.run(['import', '-', '--table', 'mixed', '--json'], 'user_name,n\nd,7\n');
    expect(piped.stderr).toMatch(/^standard input: text/);
    expect(JSON.parse(piped.stdout)).toMatchObject({ table: 'mixed', inserted: 1, refused: 0, refused_file: null });
    const rows = await project.rows(
      'SELECT user_name, n::text AS n, tags, price FROM mixed ORDER BY user_name, n, price',
    );
    expect(rows).toEqual([
      ...[0.1, 0.1, 0.1, 1].map((price) => ({ user_name: 'a', n: '9007199254740993', tags: ['x'], price })),
      { user_name: 'b', n: '5', tags: null, price: null },
      { user_name: 'café', n: '6', tags: null, price: null },
      { user_name: 'd', n: '7', tags: null, price: null },
    ]);
    expect(await load('four.txt', 'mixed')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--encoding') as string,
    });
  });

  it('with 231,083 real flights, in parts of several files', { timeout: 120_000 }, async () => {
    const file = join(projectRoot, 'node_modules/vega-datasets/data/flights-200k.json');
    const flights = JSON.parse(readFileSync(file, 'utf8')) as { delay: number; distance: number; time: number }[];
    const { code, stdout } = await load(file, 'flights', '--create', '--refused', join(ada.folder, 'flights.refused'));
    expect([code, stdout]).toEqual([0, expect.stringContaining('231,083 rows stored in flights, 0 refused')]);
    const [sums] = await project.rows(
      'SELECT count(*) AS n, sum(delay) AS delay, sum(distance) AS distance FROM flights',
    );
    const sum = (key: 'delay' | 'distance') => flights.reduce((all, flight) => all + flight[key], 0);
    expect(sums).toEqual({ n: flights.length, delay: sum('delay'), distance: sum('distance') });
  });

  it('on the whole file: picks types that fit every value, and includes keys that appear late', async () => {
    const rows = Array.from(
      { length: 12_000 },
      (_, n) => `${n},${n === 11_000 ? '01234' : 10_000 + n},${n}${n === 11_500 ? '.5' : ''},1\n`,
    );
    await ada.write('late.csv', `n,zip,size,word\n${rows.join('')}12000,5,1,oops\n`);
    const late = await load('late.csv', 'late_csv', '--create');
    expect([late.code, late.stderr]).toEqual([0, expect.stringContaining('INTEGER except for "oops" (line 12002)')]);
    expect(await types('late_csv')).toMatchObject({ n: 'bigint', zip: 'text', size: 'double precision', word: 'text' });
    expect(await project.rows('SELECT count(*) AS n FROM late_csv')).toEqual([{ n: 12_001 }]);

    const lines = Array.from({ length: 11_000 }, (_, n) => JSON.stringify(n === 10_900 ? { n, surprise: 'x' } : { n }));
    await ada.write('late.ndjson', lines.join('\n'));
    expect(await load('late.ndjson', 'late_json', '--create')).toMatchObject({ code: 0 });
    expect(await project.rows('SELECT n FROM late_json WHERE surprise = $1', ['x'])).toEqual([{ n: 10_900 }]);
  });

  it('with common variations: UTF-16, pretty-printed objects, dates, numbers and booleans in other notations', async () => {
    const utf16 = Buffer.from('\uFEFFName,Born\r\nJos\u00e9,31/01/1990\r\n', 'utf16le');
    await ada.write('utf16.csv', utf16);
    expect(await load('utf16.csv', 'utf16', '--create')).toMatchObject({ code: 0 });
    expect(await project.rows('SELECT name, born FROM utf16')).toEqual([
      { name: 'Jos\u00e9', born: '1990-01-31T00:00:00Z' },
    ]);

    await ada.write('object.json', JSON.stringify({ a: 1, b: [1] }, null, 2));
    expect(await load('object.json', 'object', '--create')).toMatchObject({ code: 0 });
    expect(await project.rows('SELECT a, b FROM object')).toEqual([{ a: 1, b: [1] }]);

    await ada.write(
      'german.csv',
      'sep=;\r\nBetrag;Stand;Aktiv;Tag;\r\n1.234,50;n/a;ja;1/2/2026;\r\n-2,5;1.000;nein;3/4/2026;\r\n;2;;;\r\n',
    );
    const german = ['--decimal', ',', '--thousands', '.', '--null', 'n/a', '--dates', 'dmy'];
    expect(await load('german.csv', 'german', '--create', ...german)).toMatchObject({ code: 0 });
    expect(await types('german')).toEqual({
      id: 'uuid',
      betrag: 'double precision',
      stand: 'bigint',
      aktiv: 'text',
      tag: 'timestamp with time zone',
    });
    expect(await project.rows('SELECT betrag, stand, tag FROM german ORDER BY betrag')).toEqual([
      { betrag: -2.5, stand: 1000, tag: '2026-04-03T00:00:00Z' },
      { betrag: 1234.5, stand: null, tag: '2026-02-01T00:00:00Z' },
      { betrag: null, stand: 2, tag: null },
    ]);

    await ada.write('preamble.tsv', 'A report\n\nname\tsize\tactive\n"x\t5\tt\n');
    const preamble = ['--skip-lines', '2', '--no-quotes', '--types', 'active=BOOLEAN'];
    expect(await load('preamble.tsv', 'preamble', '--create', ...preamble)).toMatchObject({ code: 0 });
    expect(await project.rows('SELECT name, size, active FROM preamble')).toEqual([
      { name: '"x', size: 5, active: true },
    ]);
  });

  it('from a named pipe, which cannot be resumed', async () => {
    const pipe = join(ada.folder, 'pipe');
    await promisify(execFile)('mkfifo', [pipe]);
    const running = ada.start(['import', 'pipe', '--table', 'piped', '--create']);
    await ada.write('pipe', 'a,b\n1,x\n');
    expect(await running.ended).toMatchObject({ code: 0 });
    expect(await project.rows('SELECT a, b FROM piped')).toEqual([{ a: 1, b: 'x' }]);
    expect(await load('pipe', 'piped', '--resume')).toMatchObject({ code: 2 });
  });

  it('with several files: a column gets one type for all of them, and empty columns do not count', async () => {
    await ada.write('a.csv', 'n,m,t,big\n1,1,,9007199254740993\n');
    await ada.write('b.csv', 'N,m,t,only,big\n1.5,x,2,3,0.5\n');
    const loaded = await ada.run(['import', 'a.csv', 'b.csv', '--table', 'both', '--create']);
    expect([loaded.code, loaded.stderr]).toEqual([0, expect.stringContaining('in SQL: "only"')]);
    expect(await types('both')).toMatchObject({
      n: 'double precision',
      m: 'text',
      t: 'bigint',
      only: 'bigint',
      big: 'text',
    });
    expect(await project.rows('SELECT n, m, t, "only", big FROM "both" ORDER BY n')).toEqual([
      { n: 1, m: '1', t: null, only: null, big: '9007199254740993' },
      { n: 1.5, m: 'x', t: 2, only: 3, big: '0.5' },
    ]);
  });

  it('with renamed columns, and with camelCase names as snake_case', async () => {
    await ada.write('camel.csv', 'firstName,userID,"A, B",HTTPStatus,Note,Note\na,1,2,3,x,y\n');
    const renamed = ['--rename', 'A, B=aB,note_2=remark', '--rename', 'Note=firstname'];
    expect(await load('camel.csv', 'camel', '--create', '--snake-case', ...renamed)).toMatchObject({ code: 0 });
    expect(await project.rows('SELECT * FROM camel')).toMatchObject([
      { first_name: 'a', user_id: 1, aB: 2, http_status: 3, firstname: 'x', remark: 'y' },
    ]);
    // The columns of an existing table are found as well; and names change places.
    const again = ['--snake-case', '--skip', 'a_b', '--rename', 'Note=remark,note_2=firstname'];
    expect(await load('camel.csv', 'camel', ...again)).toMatchObject({ code: 0 });
    expect(await project.rows('SELECT first_name, firstname, remark FROM camel WHERE "aB" IS NULL')).toEqual([
      { first_name: 'a', firstname: 'y', remark: 'x' },
    ]);
    expect((await load('camel.csv', 'camel')).stderr).toContain('no columns userid, a_b, httpstatus');
    expect(await load('camel.csv', 'camel', '--snake-case', '--keep-names')).toMatchObject({ code: 2 });
  });

  it('with numbers since 1970 as times, in every format', async () => {
    const numbers = ['1700000000', '-1.5', '1.7000000001e9', '253402300799.999999', '', '1e30', 'soon'];
    const times = ['2023-11-14T22:13:20Z', '1969-12-31T23:59:58.5Z', '2023-11-14T22:13:20.1Z'];
    const types = ['--types', 's=EPOCH_SECONDS,ms=EPOCH_MILLISECONDS', '--types', 'us=epoch_microseconds'];
    await ada.write(
      'epoch.csv',
      `s,ms,us\n${numbers.map((number) => `${number},1700000000001,1700000000000001`).join('\n')}\n`,
    );
    const written = numbers.map((number) => (number === '' ? 'null' : number === 'soon' ? '"soon"' : number));
    const records = written.map((s) => `{"s":${s},"ms":"1700000000001","us":1700000000000001}`);
    await ada.write('epoch.ndjson', records.join('\n'));
    for (const [file, table] of [
      ['epoch.csv', 'epoch_csv'],
      ['epoch.ndjson', 'epoch_ndjson'],
    ] as const) {
      expect(await load(file, table, '--create', ...types), file).toMatchObject({ code: 4 });
      const refused = (await ada.read(`${file}.refused.ndjson`)).trimEnd().split('\n');
      expect(
        refused.map((line) => JSON.parse(line) as unknown),
        file,
      ).toMatchObject([
        { line: file === 'epoch.csv' ? 7 : 6, errors: [{ column: 's', error: 'invalid_value' }] },
        { line: file === 'epoch.csv' ? 8 : 7, record: { s: 'soon' }, errors: [{ column: 's' }] },
      ]);
      expect(await project.rows(`SELECT s FROM ${table} ORDER BY id`), file).toEqual(
        [...times, '9999-12-31T23:59:59.999999Z', null].map((s) => ({ s })),
      );
      expect(await project.rows(`SELECT DISTINCT ms, us FROM ${table}`)).toEqual([
        { ms: '2023-11-14T22:13:20.001Z', us: '2023-11-14T22:13:20.000001Z' },
      ]);
    }
  });

  it('with flattened objects, each value as written', async () => {
    await ada.write(
      'nested.ndjson',
      '{"n":1,"address":{"city":"Bonn","geo":{"lat":1.50}},"tags":[{"a":1}]}\n{"n":2,"address":null}\n{"n":3,"address":{}}\n',
    );
    expect(await load('nested.ndjson', 'nested', '--create', '--flatten')).toMatchObject({ code: 0 });
    expect(await types('nested')).toEqual({
      ...{ id: 'uuid', n: 'bigint', address_city: 'text', address_geo_lat: 'double precision', tags: 'jsonb' },
    });
    expect(await project.rows('SELECT address_city, tags FROM nested ORDER BY n')).toEqual([
      { address_city: 'Bonn', tags: [{ a: 1 }] },
      ...[2, 3].map(() => ({ address_city: null, tags: null })),
    ]);
    await ada.write('collision.ndjson', '{"a":{"b":1}}\n{"a_b":2}\n');
    const collision = await load('collision.ndjson', 'collision', '--create', '--flatten');
    expect([collision.code, collision.stderr]).toEqual([
      2,
      expect.stringMatching(/line 2: .* a\.b and a_b the same name/),
    ]);
    await ada.write('flat.csv', 'a\n1\n');
    expect((await load('flat.csv', 'collision', '--create', '--flatten')).stderr).toContain('--flatten is for JSON');
  });

  it('with a dry run that sends nothing, and with added columns', async () => {
    await ada.write('wide.csv', 'a,b,c\n1,2,3\n');
    const dry = await load('wide.csv', 'wide', '--create', '--preview', '--types', 'a=TEXT', '--skip', 'b');
    expect(dry).toMatchObject({ code: 0 });
    expect(dry.stdout).toMatch(/POST .*schema\/table\n[^]*"name": "a",\s+"type": "TEXT"[^]*\{"a":"1","c":3\}/);
    expect(await load('wide.csv', 'wide')).toMatchObject({ code: 2 });
    await project.table('wide', { a: 'INTEGER' });
    expect(await load('wide.csv', 'wide')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('b, c') as string,
    });
    expect(await load('wide.csv', 'wide', '--add-columns', '--skip', 'b')).toMatchObject({ code: 0 });
    expect(await project.rows('SELECT a, c FROM wide')).toEqual([{ a: 1, c: 3 }]);
  });
});

describe('an import with bad records', () => {
  it('stores the good ones, writes the others to a file with their errors, and ends with 4', async () => {
    await project.table('scores', { n: 'INTEGER', j: 'JSONB' });
    const rows = Array.from({ length: 700 }, (_, n) => (n % 100 === 3 ? `x${n},` : `${n},`));
    rows.push('1,2,3', '700,{broken', `701,"${'['.repeat(101)}${']'.repeat(101)}"`);
    await ada.write('scores.csv', `n,j\n${rows.join('\n')}\n`);
    expect(await load('scores.csv', 'scores')).toMatchObject({ code: 4 });
    expect(await project.rows('SELECT count(*) AS n, count(DISTINCT n) AS d FROM scores')).toEqual([
      { n: 693, d: 693 },
    ]);
    const refused = (await ada.read('scores.csv.refused.ndjson')).trimEnd().split('\n');
    expect(refused).toHaveLength(10);
    const lines = refused.map((line) => JSON.parse(line) as { line: number; errors: { column?: string }[] });
    expect(lines.map(({ line }) => line).sort((a, b) => a - b)).toEqual([
      ...[5, 105, 205, 305, 405, 505, 605],
      ...[702, 703, 704],
    ]);
    expect(lines.find(({ line }) => line === 105)).toMatchObject({
      file: 'scores.csv',
      record: { n: 'x103', j: null },
      errors: [{ column: 'n', error: 'invalid_value' }],
    });
    // A file of refused records is not written over.
    expect(await load('scores.csv', 'scores')).toMatchObject({ code: 4 });
    expect((await ada.read('scores.csv.refused-2.ndjson')).trimEnd().split('\n')).toHaveLength(10);
  });

  it('names another delimiter if that fits', async () => {
    const lines = (...last: string[]) => ['net, EUR;day', ...Array<string>(200).fill('1,5;2026-01-01'), ...last];
    await ada.write('tie.csv', lines('12;2026-01-02').join('\n'));
    const advice = `Another delimiter fits all of the first lines: --delimiter ';'\n`;
    expect(await load('tie.csv', 'tie', '--create')).toMatchObject({
      code: 4,
      stderr: expect.stringContaining(`tie.csv: line 202 does not fit the header. ${advice}`) as string,
    });
    await ada.write('forced.csv', lines().join('\n').replace('net, EUR', 'net'));
    const { code, stderr } = await load('forced.csv', 'forced', '--create', '--delimiter', ',');
    expect([code, stderr]).toEqual([2, expect.stringContaining(`as in line 2, the header 1\n${advice}`)]);
    expect((await load('forced.csv', 'forced', '--create')).code).toBe(0);
  });

  it('advises to skip lines of titles, but never the header', async () => {
    await ada.write('title.csv', 'Estratto del 2025-01-06\nid_no;name;lat\n1;"A "" B";45,12\n2;B;46,01\n3;C;44,9\n');
    const title = await load('title.csv', 'title', '--create');
    expect([title.code, title.stderr]).toEqual([
      2,
      expect.stringContaining('If line 2 is the header: --skip-lines 1.'),
    ]);
    const done = await load('title.csv', 'title', '--create', '--skip-lines', '1', '--decimal', ',');
    expect(done).toMatchObject({ code: 0 });
    expect(await project.rows('SELECT name, lat FROM title WHERE id_no = 1')).toEqual([{ name: 'A " B', lat: 45.12 }]);
    await ada.write('narrow.csv', 'name,lat\nA,45,12\nB,46,01\n');
    const narrow = await load('narrow.csv', 'narrow', '--create');
    const advice = 'name the 3 fields: --skip-lines 1 --columns a,b,…';
    expect([narrow.code, narrow.stderr]).toEqual([2, expect.stringContaining(advice)]);
  });

  it('refuses a header of 500,000 names at once', async () => {
    await ada.write('wide.csv', `${Array.from({ length: 500_000 }, (_, n) => `c${n}`).join(',')}\n1\n`);
    const { code, stderr } = await load('wide.csv', 'wide', '--create');
    expect([code, stderr]).toEqual([2, expect.stringContaining('wide.csv has more than 10000 different fields')]);
  });

  it('stops at the first one with --strict', async () => {
    await project.table('strict', { n: 'INTEGER' });
    await ada.write('strict.csv', 'n\n1\nx\n');
    const { code, stderr } = await load('strict.csv', 'strict', '--strict');
    expect([code, stderr]).toEqual([1, expect.stringContaining('strict.csv, line 3')]);
    expect(await project.rows('SELECT * FROM strict')).toEqual([]);
  });

  it('says why a file cannot be read, and creates no table', async () => {
    const wide = Array.from({ length: 501 }, (_, n) => `c${n}`).join(',');
    for (const [name, content, said] of [
      [
        'latin1.csv',
        Buffer.from('name\nAda\nJos\u00e9\n', 'latin1'),
        /line 3: this is not UTF-8\n.*Jos\u00e9\n.*windows-1252/,
      ],
      ['utf16.csv', Buffer.from('name\nJos\n', 'utf16le'), /--encoding utf-16le/],
      ['sheet.zip', Buffer.from('504b030414000600', 'hex'), /sheet\.zip is a ZIP archive/],
      ['sheet.xlsx', Buffer.from('504b030414000600', 'hex'), /sheet\.xlsx cannot be read as a workbook: /],
      ['data.parquet', Buffer.from('PAR1'), /data\.parquet cannot be read as Parquet: /],
      ['data.parquet.gz', gzipSync('PAR1'), /data\.parquet\.gz is a Parquet file/],
      ['packed.csv.bz2', Buffer.from('BZh91AY'), /bzcat/],
      ['empty.csv', '', /is empty/],
      ['blank.csv', '\n\n', /is empty/],
      ['names.csv', ',,\n1,2,3\n', /no names/],
      ['scalars.json', '[1, 2]', /no record is a JSON object/],
      ['open.json', '{"a":\n1', /line 2: an object does not end/],
      ['wide.csv', `${wide}\n`, /501 columns, but the limit is 500/],
      ['cp1252.csv', Buffer.from('a\n\x935\x80\x94\n', 'latin1'), /it is: \u201c5\u20ac\u201d\n/],
      [
        'title.csv',
        'Report\nMade today\n\nn,size,c\n1,2,\n3,4,5\n',
        /3 fields, as in line 4, .*header 1\n.*--skip-lines 3/,
      ],
      ['short.csv', 'a,b,c\n1,2\n3,4\n', /most records have 2 fields, as in line 2, the header 3/],
      ['stray.csv', 'a,b\n1,"x\n', /line 2: a quote is not closed\n.*--no-quotes/],
    ] as const) {
      await ada.write(name, content);
      const { code, stderr } = await load(name, 'unreadable', '--create');
      expect([name, code, stderr]).toEqual([name, 2, expect.stringMatching(said)]);
    }
    const neither = await load('empty.csv', 'unreadable', '--create', '--decimal', ';');
    expect(neither).toMatchObject({ code: 2, stderr: expect.stringContaining('Expected "." or ",".') as string });
    const same = await load('empty.csv', 'unreadable', '--create', '--decimal', ',', '--thousands', ',');
    expect(same).toMatchObject({ code: 2, stderr: expect.stringContaining('are both') as string });
    expect(await project.rows("SELECT to_regclass('unreadable') AS found")).toEqual([{ found: null }]);
  });

  it('rejects a name in --skip or --types that no file has, and suggests one', async () => {
    await ada.write('private.csv', 'Name,E-Mail\nAda,ada@example.com\n');
    await ada.write('public.csv', 'Name,Score\nAda,5\n');
    const files = ['import', 'private.csv', 'public.csv', '--table', 'names', '--create'];
    for (const [options, said] of [
      [['--skip', 'Score,e_mial'], /^cdp: --skip: there is no field "e_mial"\nDid you mean "e_mail"\?$/m],
      [['--types', 'Scroe=TEXT'], /^cdp: --types: there is no field "Scroe"\nDid you mean "Score"\?$/m],
      [['--rename', 'Name=a,E-Mial=b'], /^cdp: --rename: there is no field "E-Mial"\nDid you mean "E-Mail"\?$/m],
      [['--rename', 'Name=x', '--rename', 'e_mail=x'], /"Name" and "E-Mail" would both go to the column "x"/],
      [['--skip', 'nmae', '--types', 'Scroe=TEXT'], /^cdp: --skip: .* "nmae"; --types: .* "Scroe"$/m],
      [['--types', 'Name=EPOCH'], /the types are .*EPOCH_SECONDS/],
      [['--skip', 'telephone'], /^The fields are Name, E-Mail, Score$/m],
    ] as const) {
      expect(await ada.run([...files, ...options])).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(said) as string,
      });
    }
    expect(await project.rows("SELECT to_regclass('names') AS found")).toEqual([{ found: null }]);
    expect(await ada.run([...files, '--skip', 'Score,e_mail'])).toMatchObject({ code: 0 });
    expect(Object.keys(await types('names'))).toEqual(['id', 'name']);
    // A nightly file without records is no reason to stop.
    await ada.write('none.json', '[]');
    expect(await load('none.json', 'names', '--skip', 'e_mail')).toMatchObject({ code: 0 });
  });

  it('imports them from that file once they are corrected, even if another program wrote the file', async () => {
    await project.table('corrected', { n: 'INTEGER', big: 'INTEGER', t: 'TEXT' });
    await ada.write('corrected.csv', 'n,big,t\none,9007199254740993,"say ""a"""\n2,2,b\ntwo,3,c\n');
    const first = await load('corrected.csv', 'corrected');
    expect([first.code, first.stderr]).toEqual([
      4,
      expect.stringMatching(/import them with:\n {2}cdp import \S*corrected\.csv\.refused\.ndjson --table corrected\n/),
    ]);
    const refused = await ada.read('corrected.csv.refused.ndjson');
    await ada.write('corrected.csv.refused.ndjson', refused.replace('"one"', '1').replace('"two"', '"3"'));
    expect(await load('corrected.csv.refused.ndjson', 'corrected')).toMatchObject({ code: 0 });
    expect(await project.rows('SELECT n, big::text AS big, t FROM corrected ORDER BY n')).toEqual([
      { n: 1, big: '9007199254740993', t: 'say "a"' },
      { n: 2, big: '2', t: 'b' },
      { n: 3, big: '3', t: 'c' },
    ]);
    // As editors and other programs write JSON.
    const spread = { file: 'a"b.csv', line: 7, record: { n: 4, big: 4, t: 'd' } };
    await ada.write('spread.json', JSON.stringify(spread, null, 2));
    expect(await load('spread.json', 'corrected')).toMatchObject({ code: 0 });
    expect(await project.rows('SELECT t FROM corrected WHERE n = 4')).toEqual([{ t: 'd' }]);
  });

  it('imports a line that was not JSON from that file, corrected within its quotes or as an object', async () => {
    await project.table('mended', { n: 'INTEGER', t: 'TEXT' });
    await ada.write('mended.ndjson', '{"n":1,"t":"a"}\n{"n":2,"t":"b"\n{"n":3,"t":"c",\n{"n":4\n');
    expect(await load('mended.ndjson', 'mended')).toMatchObject({ code: 4 });
    const refused = await ada.read('mended.ndjson.refused.ndjson');
    expect(refused).toContain(String.raw`"record":"{\"n\":2,\"t\":\"b\"",`);
    const corrected = refused
      .replace(String.raw`\"b\"",`, String.raw`\"b\"}",`)
      .replace(String.raw`"{\"n\":3,\"t\":\"c\",",`, '{"n":3,"t":"c"},');
    await ada.write('mended.ndjson.refused.ndjson', corrected);
    expect(await load('mended.ndjson.refused.ndjson', 'mended')).toMatchObject({ code: 4 });
    expect(await project.rows('SELECT n, t FROM mended ORDER BY n')).toEqual([
      { n: 1, t: 'a' },
      { n: 2, t: 'b' },
      { n: 3, t: 'c' },
    ]);
    const again = await ada.read('mended.ndjson.refused.ndjson.refused.ndjson');
    expect(again).toContain(String.raw`"record":"{\"n\":4",`);
  });

  it('imports records with too few or too many fields from that file, once a correction says so', async () => {
    await project.table('widths', { n: 'INTEGER', t: 'TEXT', at: 'TIMESTAMP' });
    await ada.write('widths.csv', 'n,t,at\n1,a,31/01/2026\n2,b\n3,c,c,01/02/2026\n4,d,31/31/2026\n5,e,01/02/2026\n');
    const first = await load('widths.csv', 'widths');
    expect([first.code, first.stderr]).toEqual([4, expect.stringContaining('"31/31/2026" (line 5): refused')]);
    const refused = await ada.read('widths.csv.refused.ndjson');
    expect(
      refused
        .trimEnd()
        .split('\n')
        .map((line) => (JSON.parse(line) as { record: unknown }).record),
    ).toEqual([
      { n: 2, t: 'b', '(fields as read)': ['2', 'b'] },
      { n: 3, t: 'c', at: 'c', '(fields as read)': ['3', 'c', 'c', '01/02/2026'] },
      { n: 4, t: 'd', at: '31/31/2026' },
    ]);
    expect(await load('widths.csv.refused.ndjson', 'widths')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(
        'cdp: A record is not corrected yet: it has "(fields as read)"\nPut its values under the right names',
      ) as string,
    });
    const corrected = refused.replace(/,"\(fields as read\)":\[[^\]]*\]/g, '').replace('"at":"c"', '"at":"2026-02-01"');
    await ada.write('widths.csv.refused.ndjson', corrected.replace('31/31/2026', '2026-01-31'));
    expect(await load('widths.csv.refused.ndjson', 'widths')).toMatchObject({ code: 0 });
    expect(await project.rows('SELECT n, at FROM widths ORDER BY n')).toEqual([
      { n: 1, at: '2026-01-31T00:00:00Z' },
      { n: 2, at: null },
      { n: 3, at: '2026-02-01T00:00:00Z' },
      { n: 4, at: '2026-01-31T00:00:00Z' },
      { n: 5, at: '2026-02-01T00:00:00Z' },
    ]);
  });

  it('says why a column is not a date if --dates names the other order, and shortens long names', async () => {
    const [long, number] = ['x'.repeat(60), `0.${'1234567890'.repeat(5)}`];
    await ada.write('orders.csv', `at,${long},exact\n31/01/2026,1,${number}\n01/02/2026,2,1\n`);
    const { stderr } = await load('orders.csv', 'orders', '--create', '--preview', '--dates', 'mdy');
    expect(stderr).toMatch(/^at +\| at +\| TEXT +\| TIMESTAMP with --dates dmy$/m);
    expect(stderr).toMatch(/^x{39}… \| x{60} \| INTEGER \|$/m);
    expect(stderr).toMatch(/digits of 0\.[0-9]{38}… would be lost$/m);
  });

  it('reads dates and numbers as the file writes them for columns of other types too, and refuses what could be another', async () => {
    await project.rows('CREATE TABLE other_types (d date, at timestamp, n numeric(8,2), i int)');
    const stored = () => project.rows('SELECT d::text, at::text, n::text, i FROM other_types ORDER BY d');
    await ada.write(
      'other.csv',
      'd;at;n;i\n01/02/2026;01/02/2026 10:00;1.234,5;1.234\n25/02/2026;25/02/2026 11:00;-5;7\n',
    );
    const notation = ['--decimal', ',', '--thousands', '.'];
    expect(await load('other.csv', 'other_types', ...notation)).toMatchObject({ code: 0 });
    expect(await stored()).toEqual([
      { d: '2026-02-01', at: '2026-02-01 10:00:00', n: '1234.50', i: 1234 },
      { d: '2026-02-25', at: '2026-02-25 11:00:00', n: '-5.00', i: 7 },
    ]);
    await ada.write('unclear.csv', 'd,n\n01/02/2026,1\n2026-03-01,2\n2026-03-02,12.34\n');
    const unclear = await load('unclear.csv', 'other_types', '--decimal', ',', '--delimiter', ',');
    expect(unclear).toMatchObject({ code: 4, stderr: expect.stringContaining('--dates dmy or mdy') as string });
    const refused = await ada.read('unclear.csv.refused.ndjson');
    expect(refused).toContain('does not show whether the day or the month comes first');
    expect(refused).toContain('is not a number with the decimal separator ,');
    expect(await stored()).toHaveLength(3);
    const stream = { headers: { 'content-type': 'text/csv' }, body: 'd\n01/02/2026\n' };
    expectFailure(await project.call('POST', '/api/cdp/data/other_types', stream), 400, 'invalid_value');
  });

  it('stops if the records are inside another object, says how to extract them, and imports the object itself on request', async () => {
    await ada.write('answer.json', '{"page":1,"data":[{"a":1},{"a":2}]}');
    const { code, stderr } = await load('answer.json', 'answer', '--create');
    expect([code, stderr]).toEqual([2, expect.stringContaining(`jq -c '.["data"][]' answer.json | cdp import - `)]);
    expect(await project.rows("SELECT to_regclass('answer') AS found")).toEqual([{ found: null }]);
    expect(await load('answer.json', 'answer', '--create', '--types', 'data=JSONB')).toMatchObject({ code: 0 });
    expect(await load('answer.json', 'answer')).toMatchObject({ code: 0 });
    expect(await project.rows('SELECT page FROM answer')).toEqual([{ page: 1 }, { page: 1 }]);
  });

  it('rejects an invalid table name and a missing table before reading the file', async () => {
    await ada.write('any.csv', 'a\n1\n');
    const named = await load('any.csv', 'My Table', '--create');
    expect(named).toMatchObject({ code: 2, stderr: expect.stringContaining('--table my_table') as string });
    const missing = await load('any.csv', 'nowhere');
    expect([missing.code, missing.stderr]).toEqual([2, expect.stringMatching(/^cdp: There is no table "nowhere"/)]);
    await project.table('somewhere', { a: 'TEXT' });
    expect((await load('any.csv', 'somewere')).stderr).toBe(
      'cdp: There is no table "somewere"\nDid you mean "somewhere"?\nCreate it with --create; look at it first with --preview\n',
    );
  });

  it('stops if the first line looks like a record, unless it names the columns of the table', async () => {
    await ada.write('bare.csv', '1,Ada\n2,Grace\n');
    const bare = await load('bare.csv', 'bare', '--create');
    expect([bare.code, bare.stderr]).toEqual([
      2,
      'cdp: bare.csv: the first line would be the header, but looks like a record: 1, Ada\n' +
        'Name the 2 fields with --columns a,b,…; if that line is a header, add --skip-lines 1\n',
    ]);
    expect(await load('bare.csv', 'bare', '--create', '--columns', 'n,name')).toMatchObject({ code: 0 });
    expect(await project.rows('SELECT n, name FROM bare ORDER BY n')).toEqual([
      { n: 1, name: 'Ada' },
      { n: 2, name: 'Grace' },
    ]);
    await ada.write('mixed.csv', '1,Ada,3.5\n2,Grace,4\n');
    expect(await load('mixed.csv', 'mixed', '--create')).toMatchObject({ code: 2 });
    await ada.write('numbered.csv', '1,2\n3,4\n');
    const numbered = ['--columns', '1,2', '--skip-lines', '1'];
    expect(await load('numbered.csv', 'numbered', '--create', ...numbered)).toMatchObject({ code: 0 });
    expect(await load('numbered.csv', 'numbered', '--add-columns')).toMatchObject({ code: 0 });
    expect(await project.rows('SELECT _1, _2 FROM numbered')).toEqual([
      { _1: 3, _2: 4 },
      { _1: 3, _2: 4 },
    ]);
    await ada.write('years.csv', 'country,2020,2021\nNO,1,2\n');
    expect(await load('years.csv', 'years', '--create')).toMatchObject({ code: 0 });
  });

  it('warns that \\N is read as text, unless --null says that it means NULL', async () => {
    await ada.write('copied.tsv', 'n\tname\n1\tAda\n2\t\\N\n');
    const copied = await load('copied.tsv', 'copied', '--create', '--preview');
    expect(copied.stderr).toContain(`copied.tsv: \\N in line 3 is read as text. If it means NULL: --null '\\N'\n`);
    const told = await load('copied.tsv', 'copied', '--create', '--null', '\\N');
    expect([told.code, told.stderr]).toEqual([0, expect.not.stringContaining('--null')]);
    expect(await project.rows('SELECT name FROM copied ORDER BY n')).toEqual([{ name: 'Ada' }, { name: null }]);
  });

  it('sends nothing from a file that is broken far from its beginning, unless --sample limits the check', async () => {
    await project.table('broken_late', { n: 'INTEGER' });
    await ada.write('late.csv', `n,t\n${Array.from({ length: 12_000 }, (_, n) => `${n},\n`).join('')}1,"x"y\n`);
    const whole = await load('late.csv', 'broken_late', '--skip', 't');
    expect([whole.code, whole.stderr]).toEqual([2, expect.stringContaining('late.csv, line 12002')]);
    expect(await project.rows('SELECT * FROM broken_late')).toEqual([]);
    const part = await load('late.csv', 'broken_late', '--skip', 't', '--sample', '10');
    expect([part.code, part.stderr]).toEqual([
      1,
      expect.stringMatching(/12,000 rows are stored, 0 refused\ncdp: .*12002/),
    ]);
    expect(part.stderr).not.toContain('--resume');
  });

  it('stores nothing from a file without records, and creates no table for it', async () => {
    await project.table('nothing', { n: 'INTEGER' });
    for (const [file, content] of [
      ['none.ndjson', ''],
      ['none.jsonl', '\n'],
      ['none-at-all.json', '[]\n'],
      ['none.json.gz', gzipSync('[ ]')],
      ['none.csv', 'n\n'],
    ] as const) {
      await ada.write(file, content);
      const loaded = await load(file, 'nothing');
      expect([loaded.code, loaded.stdout], file).toEqual([0, expect.stringContaining('0 rows stored')]);
      if (file === 'none.csv') continue;
      const made = await load(file, 'nothing_made', '--create');
      expect([made.code, made.stderr], file).toEqual([2, expect.stringContaining('has no records')]);
    }
    await ada.write('none.csv', '');
    expect((await load('none.csv', 'nothing')).stderr).toBe('cdp: none.csv is empty\n');
  });

  it('says what is wrong with a text file that contains no records', async () => {
    const said = async (file: string, content: string | Uint8Array) => {
      await ada.write(file, content);
      const { code, stderr } = await load(file, 'what', '--create');
      expect(code).toBe(2);
      return stderr;
    };
    expect(await said('page.csv', '\uFEFF\n<!DOCTYPE html>\n<html>')).toContain('page.csv is a web page');
    expect(await said('feed.csv', '<?xml version="1.0"?><a/>')).toContain('is XML');
    const tar = Buffer.alloc(1024);
    tar.write('data.csv', 0);
    tar.write('ustar', 257);
    expect(await said('all.tar.gz', gzipSync(tar))).toContain('tar xf all.tar.gz');
    expect(await said('arrays.json', '[["a", "b"], [1, 2]]')).toContain(`jq -r '.[] | @csv' arrays.json`);
    expect(await said('spark.csv', 'a,b\n"say \\"hi\\"",1\n')).toContain(`--escape '\\'`);
    expect(await load('spark.csv', 'spark', '--create', '--escape', '\\')).toMatchObject({ code: 0 });
    expect(await project.rows('SELECT a, b FROM spark')).toEqual([{ a: 'say "hi"', b: 1 }]);
  });

  it('warns if a file was written to during the import', async () => {
    await project.table('growing', { n: 'INTEGER' });
    const file = await ada.write('growing.csv', 'n\n1\n');
    let isFirst = true;
    proxy.plan = (request) => {
      const sendsRecords = request.url?.startsWith('/api/cdp/data/') === true;
      if (sendsRecords && isFirst) appendFileSync(file, '2\n');
      isFirst &&= !sendsRecords;
      return undefined;
    };
    const { code, stderr } = await load('growing.csv', 'growing');
    proxy.plan = () => undefined;
    expect([code, stderr]).toEqual([0, expect.stringContaining('growing.csv was changed during the import')]);
  });

  it('sends nothing if it cannot write refused records to their file', async () => {
    await ada.write('any.csv', 'n\n1\n');
    const loaded = await load('any.csv', 'unwritten', '--create', '--refused', 'missing/x.ndjson');
    expect(loaded).toMatchObject({ code: 2, stderr: 'cdp: There is no folder missing\n' });
    expect(await project.rows(`SELECT to_regclass('unwritten') AS made`)).toEqual([{ made: null }]);
  });

  it('names the line in which the CSV is broken', async () => {
    await ada.write('broken.csv', 'a,b\n1,"x"y\n');
    expect(await load('broken.csv', 'scores')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('broken.csv, line 2') as string,
    });
  });
});

it('leaves nothing to resume if the token may not insert', async () => {
  await project.table('forbidden', { n: 'INTEGER' });
  const reader = await person({ CDP_URL: service.url, CDP_TOKEN: await project.tokenWith('schema:read', 'sql:read') });
  await reader.write('forbidden.csv', 'n\n1\n');
  const { code, stderr } = await reader.run(['import', 'forbidden.csv', '--table', 'forbidden']);
  expect([code, stderr]).toEqual([1, expect.stringContaining('cdp: insufficient_scope')]);
  expect(stderr).not.toContain('--resume');
  expect(await readdir(join(reader.folder, 'state/cdp/imports'))).toEqual([]);
});

describe('an interrupted import', () => {
  const ROWS = 60_000;
  const BAD = (n: number) => n % 1_000 === 500;
  let wire: BreakingProxy;
  let bob: Person;
  beforeAll(async () => {
    wire = await startBreakingProxy(service.url);
    bob = await person({ CDP_URL: wire.url, CDP_TOKEN: project.token });
  });
  afterAll(() => wire.close());
  afterEach(() => Object.assign(wire, { breakAfter: [], broken: 0, stalls: false }));

  const load = (table: string, ...more: string[]) => bob.run(['import', `${table}.csv`, '--table', table, ...more]);
  const refusedLines = async (table: string): Promise<number[]> => {
    const refused = (await bob.read(`${table}.csv.refused.ndjson`)).trimEnd().split('\n');
    return refused.map((line) => (JSON.parse(line) as { line: number }).line).sort((a, b) => a - b);
  };
  const numbers = Array.from({ length: ROWS }, (_, n) => n);
  const badLines = numbers.filter(BAD).map((n) => n + 2);

  /** Every record once, although a second one would be refused as a duplicate. */
  async function check(table: string): Promise<void> {
    const good = numbers.filter((n) => !BAD(n));
    const rows = await project.rows(
      `SELECT count(*) AS rows, count(DISTINCT n) AS different, sum(n) AS sum, bool_and(text = 'text ' || n) AS same FROM ${table}`,
    );
    expect(rows).toEqual([
      { rows: good.length, different: good.length, sum: good.reduce((sum, n) => sum + n, 0), same: true },
    ]);
    expect(await refusedLines(table)).toEqual(badLines);
  }
  async function prepare(table: string): Promise<void> {
    await project.table(table, { n: 'INTEGER', text: 'TEXT' });
    await project.rows(`CREATE UNIQUE INDEX ON ${table} (n)`);
    const rows = numbers.map((n) => `${BAD(n) ? `bad ${n}` : n},text ${n}\n`);
    await bob.write(`${table}.csv`, `n,text\n${rows.join('')}`);
  }
  const countIn = async (table: string) => (await project.rows(`SELECT count(*) AS count FROM ${table}`))[0]?.['count'];

  /** Kills an import when so many bytes have come from it; the service does what it is asked, and nobody hears of it. */
  async function kill(table: string, bytes: number, ...more: string[]): Promise<void> {
    Object.assign(wire, { breakAfter: [bytes], broken: 0, stalls: true });
    const running = bob.start(['import', `${table}.csv`, '--table', table, ...more]);
    await eventually('the responses are lost', () => Promise.resolve(wire.broken > 0));
    await sleep(Math.random() * 60);
    expect((await running.end('SIGKILL')).signal).toBe('SIGKILL');
    wire.stalls = false;
  }

  it('resumes after kill -9 and lost responses, more than once, and stores every record once', async () => {
    await prepare('killed');
    const stored: unknown[] = [];
    for (const [round, bytes] of [2_000_000, 5_000, 900_000, 400_000, 150_000].entries()) {
      await kill('killed', bytes, ...(round === 0 ? [] : ['--resume']));
      stored.push(await countIn('killed'));
    }
    expect(Math.max(...(stored as number[]))).toBeGreaterThan(0);
    expect(Math.max(...(stored as number[]))).toBeLessThan(ROWS - 60);
    expect(await load('killed')).toMatchObject({ code: 2, stderr: expect.stringContaining('--resume') as string });
    expect(await load('killed', '--resume')).toMatchObject({ code: 4 });
    await check('killed');
    expect(await load('killed', '--resume')).toMatchObject({ code: 2 });
  });

  it('needs no resuming if only the connection breaks', async () => {
    await prepare('broken');
    wire.breakAfter = [700_000, 1_000, 400_000, 1_000_000];
    const { code, stdout } = await load('broken', '--json');
    expect(code).toBe(4);
    expect(wire.broken).toBe(4);
    expect(JSON.parse(stdout)).toMatchObject({ inserted: ROWS - badLines.length, refused: badLines.length });
    await check('broken');
  });

  it('stops on Ctrl-C after storing what was sent, and says how to continue', async () => {
    await prepare('stopped');
    Object.assign(wire, { breakAfter: [500_000], stalls: true });
    const running = bob.start(['import', 'stopped.csv', '--table', 'stopped']);
    await eventually('records are sent', () => Promise.resolve(wire.broken > 0));
    // The connection hangs: the first Ctrl-C waits, the second does not.
    running.process.kill('SIGINT');
    await sleep(200);
    const { code, stderr } = await running.end('SIGINT');
    expect([code, stderr]).toEqual([
      130,
      expect.stringContaining('Continue with:\n  cdp import stopped.csv --table stopped --resume'),
    ]);
    wire.stalls = false;
    expect(await load('stopped', '--resume')).toMatchObject({ code: 4 });
    await check('stopped');

    await project.table('paused', { n: 'INTEGER' });
    await bob.write('paused.csv', `n\n${'1\n'.repeat(600_000)}`);
    const paused = bob.start(['import', 'paused.csv', '--table', 'paused']);
    await eventually('records are stored', async () => (await countIn('paused')) !== 0);
    const end = await paused.end('SIGINT');
    expect(end.code).toBe(130);
    const said = Number(/(\d[\d,]*) rows are stored/.exec(end.stderr)?.[1]?.replaceAll(',', ''));
    expect(said).toBe(await countIn('paused'));
    expect(said).toBeLessThan(600_000);
    expect(await load('paused', '--resume')).toMatchObject({ code: 0 });
    expect(await countIn('paused')).toBe(600_000);
  });

  /** Lets hours pass, for the journals and for what the service remembers. */
  async function pass(table: string, hours: number): Promise<void> {
    const before = (_: string, at: string) => `"t":${Number(at) - hours * 3_600_000}`;
    for (const name of await readdir(join(bob.folder, 'state/cdp/imports'))) {
      const file = join('state/cdp/imports', name);
      await bob.write(file, (await bob.read(file)).replace(/"t":(\d+)/g, before));
    }
    const past = `interval '${hours} hours'`;
    await project.rows(
      `UPDATE _cdp.idempotency_keys SET created_at = created_at - ${past}, expires_at = expires_at - ${past} WHERE path = 'STREAM ${table}'`,
    );
  }

  it('resumes after more than a day, by the receipt of its stream', async () => {
    await prepare('days');
    await kill('days', 1_200_000);
    await pass('days', 48);
    expect(await load('days', '--resume')).toMatchObject({ code: 4 });
    await check('days');
  });

  it('does not resume what is in doubt and older than the oldest receipts, unless with --resume-late', async () => {
    await prepare('late');
    await kill('late', 1_200_000);
    await pass('late', 8 * 24);
    const late = await load('late', '--resume');
    expect([late.code, late.stderr]).toEqual([2, expect.stringContaining('--resume-late')]);
    expect(late.stderr).toMatch(/^cdp: The last records got no response and are so old/);
    expect(await load('late', '--resume-late')).toMatchObject({ code: 4 });
    expect(await countIn('late')).toBe(ROWS - badLines.length);
    // What was stored without a response was sent again: here, the unique index has refused it.
    expect(await refusedLines('late')).toEqual(expect.arrayContaining(badLines));
  });

  it('refuses the other records if a column was renamed meanwhile, and stores none without that column', async () => {
    await project.table('altered', { n: 'INTEGER', t: 'TEXT' });
    const rows = Array.from({ length: 10_100 }, (_, n) => `${n === 10_050 ? 'x' : n},${n % 2 === 0 ? '' : 't'}`);
    await bob.write('altered.csv', `n,t\n${rows.join('\n')}\n`);
    expect(await load('altered', '--strict')).toMatchObject({ code: 1 });
    const stored = 'SELECT count(*)::integer AS rows, max(n) AS last FROM altered';
    const before = await project.rows(stored);
    expect(before).toEqual([{ rows: 10_000, last: 9_999 }]);
    await project.rows('ALTER TABLE altered RENAME t TO title');
    expect(await load('altered', '--resume')).toMatchObject({ code: 4 });
    expect(await project.rows(stored)).toEqual(before);
    const refused = (await bob.read('altered.csv.refused.ndjson')).trimEnd().split('\n');
    expect(refused).toHaveLength(100);
    const places = refused.flatMap((line) => (JSON.parse(line) as { errors: object[] }).errors);
    expect(places.filter((place) => 'column' in place && place.column === 't')).toHaveLength(100);
  });

  it('does not resume with a file that has changed', async () => {
    await prepare('changed');
    await kill('changed', 700_000);
    await bob.write('changed.csv', 'n,text\n1,a\n');
    expect(await load('changed', '--resume')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('has changed') as string,
    });
    expect((await load('changed', '--restart')).code).toBeTypeOf('number');
  });
});

describe('memory', () => {
  it('does not grow with the file: 200,000 rows', { timeout: 120_000 }, async () => {
    const rows = Array.from({ length: 200_000 }, (_, n) => `${n},name ${n},${n / 100},2026-01-31T09:30:00Z\n`);
    await ada.write('large.csv', `n,name,amount,at\n${rows.join('')}`);
    const running = ada.start(['import', 'large.csv', '--table', 'large', '--create']);
    let most = 0;
    let hasEnded = false;
    void running.ended.then(() => (hasEnded = true));
    while (!hasEnded) {
      const status = readStatus(running.process.pid);
      most = Math.max(most, Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1] ?? 0));
      await sleep(50);
    }
    expect((await running.ended).code).toBe(0);
    expect(await project.rows('SELECT count(DISTINCT n) AS n FROM large')).toEqual([{ n: 200_000 }]);
    if (process.platform === 'linux') expect(most).toBeLessThan(256 * 1024);
  });
});

function readStatus(pid: number | undefined): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8');
  } catch {
    return '';
  }
}
