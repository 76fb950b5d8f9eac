/** Which entries of an archive a restore takes, and the statements that follow. */
import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { type TocEntry, readToc } from '../../../src/backup/logical/dump-toc.js';
import { chooseEntries, setSearchPath } from '../../../src/backup/logical/toc-entries.js';
import { entriesOf } from '../../../src/backup/logical/dump-entries.js';
import { renameRoles } from '../../../src/backup/logical/roles.js';

/** Of `KIND | schema | name | owner`, where a dash stands for no schema. */
const entry = (text: string, id = 1): TocEntry => {
  const [kind = '', schema = '', name = '', owner = ''] = text.split(' | ');
  return { id, kind, schema: schema === '-' ? null : schema, name, owner };
};

const choose = (...texts: string[]) => {
  const entries = texts.map((text, i) => entry(text, i + 1));
  const { ownSchemas, leftOut, ...chosen } = chooseEntries(entries, 'data', 'w_1');
  const where = Object.entries(chosen).flatMap(([key, found]) => found.map(({ id }) => `${key} ${id}`));
  return { ownSchemas, leftOut, where };
};

describe('an entry of an archive', () => {
  it.each([
    'TABLE | data | t | w_1',
    'TABLE | data | a b; c\nd "e" | w_1',
    'TABLE DATA | data | t | w_1',
    'TABLE DATA | data | SCHEMA - _cdp | w_1',
    'SEQUENCE SET | data | s | w_1',
    'FK CONSTRAINT | data | t t_fkey | w_1',
    'ROW SECURITY | data | t | w_1',
    'COMMENT | data | TABLE "POLICY x" | w_1',
    'CAST | - | CAST (integer AS data.mood) | ',
    'BLOB | - | 16535 | w_1',
    'BLOB METADATA | - | 16535..16540 | w_1',
    'BLOBS | - | BLOBS | ',
    'COMMENT | - | CAST (integer AS data.mood) | ',
    'COMMENT | - | LARGE OBJECT 16535 | w_1',
    'TABLE DATA | _cdp | idempotency_keys | cdp_service',
    'TABLE DATA | _cdp | quarantine | cdp_service',
    'TABLE DATA | _cdp | quarantined | cdp_service',
  ])('goes to pg_restore: %s', (text) => expect(choose(text)).toMatchObject({ where: ['contents 1'], leftOut: [] }));

  it.each([
    ['access', 'ACL | data | TABLE t | w_1'],
    ['access', 'ACL | - | LARGE OBJECT 16535 | w_1'],
    ['access', 'DEFAULT ACL | data | DEFAULT PRIVILEGES FOR SEQUENCES | w_1'],
    ['access', 'DEFAULT ACL | - | DEFAULT PRIVILEGES FOR TABLES | w_1'],
    ['access', 'POLICY | data | t pp | w_1'],
    ['last', 'COMMENT | data | POLICY pp ON t | w_1'],
    ['last', 'MATERIALIZED VIEW DATA | data | m | w_1'],
  ])('follows, with others of %s: %s', (where, text) =>
    expect(choose(text)).toMatchObject({ where: [`${where} 1`], leftOut: [] }),
  );

  it.each([
    'SCHEMA | - | data | cdp_service',
    'ACL | - | SCHEMA data | cdp_service',
    'COMMENT | - | SCHEMA data | cdp_service',
    'EXTENSION | - | pg_trgm | ',
    'COMMENT | - | EXTENSION pg_trgm | ',
    'FUNCTION | _cdp | uuid_v7() | cdp_service',
    'TABLE DATA | _cdp | preparation | cdp_service',
    'TABLE DATA | _cdp | idempotency_keys w | cdp_service',
    'TABLE | _cdp | idempotency_keys | cdp_service',
    'ACL | pg_catalog | TABLE pg_database | cdp_service',
    'FUNCTION | extensions | f() | cdp_service',
    'FUNCTION | database | f() | cdp_service',
    'CAST | - | CAST (regrole AS text) | ',
    'EVENT TRIGGER | - | cdp_autosummarize | cdp_service',
    'DEFAULT ACL | - | DEFAULT PRIVILEGES FOR TABLES | cdp_service',
    'DEFAULT ACL | data | DEFAULT PRIVILEGES FOR TABLES | cdp_service',
  ])('is not of the project: %s', (text) => expect(choose(text)).toMatchObject({ where: [], leftOut: [] }));

  it('that the writer owns elsewhere is named, and one of a kind that nobody knows is refused', () => {
    expect(choose('SERVER | - | elsewhere | w_1', 'TABLE | public | t | w_1')).toEqual({
      ...{ ownSchemas: [], where: [] },
      leftOut: ['SERVER elsewhere', 'TABLE public.t'],
    });
    expect(() => choose('PROPERTY GRAPH | - | g | ')).toThrow('contains a PROPERTY GRAPH, which this program does not');
  });
});

describe.each(['drizzle', 'a b', 'DATA', 'x; "y"\nz'])('of a schema %j that the writer created', (name) => {
  const quoted = name === 'drizzle' ? name : `"${name.replaceAll('"', '""')}"`;
  it.each([
    ['contents', `TABLE | ${name} | t | w_1`],
    ['contents', `CAST | - | CAST (integer AS ${quoted}.state) | `],
    ['contents', `COMMENT | - | SCHEMA ${quoted} | w_1`],
    ['access', `ACL | - | SCHEMA ${quoted} | w_1`],
  ])('%s have %s, but not the CREATE SCHEMA', (where, text) => {
    expect(choose(`SCHEMA | - | ${name} | w_1`, text)).toEqual({
      ...{ ownSchemas: [name], where: [`${where} 2`], leftOut: [] },
    });
    expect(choose(`SCHEMA | - | ${name} | cdp_service`, text)).toMatchObject({ ownSchemas: [], where: [] });
  });
});

describe('the statements', () => {
  const script = `--
-- PostgreSQL database dump
--

\\restrict abc

SET statement_timeout = 0;

--
-- Name: t pp; Type: POLICY; Schema: data; Owner: -
--

CREATE POLICY pp ON data.t TO w_old USING ((a = ';
--
'::text));


--
-- Name: POLICY pp ON t; Type: COMMENT; Schema: data; Owner: -
--

COMMENT ON POLICY pp ON data.t IS 'TO w_old';


--
-- Name: TABLE t; Type: ACL; Schema: data; Owner: -
--

REVOKE ALL ON TABLE data.t FROM w_old;
GRANT SELECT ON TABLE data.t TO r_old;


--
-- PostgreSQL database dump complete
--

\\unrestrict abc
`;
  it('are only those of the entries', () => {
    expect(entriesOf(script).map(({ text }) => text)).toEqual([
      "CREATE POLICY pp ON data.t TO w_old USING ((a = ';\n--\n'::text));",
      "COMMENT ON POLICY pp ON data.t IS 'TO w_old';",
      'REVOKE ALL ON TABLE data.t FROM w_old;\nGRANT SELECT ON TABLE data.t TO r_old;',
    ]);
    expect(entriesOf('')).toEqual([]);
  });
});

describe('the roles of a statement', () => {
  const [from, to] = [
    { writer: 'writer', reader: 'reader' },
    { writer: 'w_1', reader: 'r_1' },
  ];
  it.each([
    [
      `CREATE POLICY "TO writer" ON data."é FROM reader" TO writer, "reader", PUBLIC, "TO reader" USING ((a <> 'é BY writer'::text));`,
      [
        `CREATE POLICY "TO writer" ON data."é FROM reader" TO "w_1", "r_1", PUBLIC, "TO reader" USING ((a <> 'é BY writer'::text))`,
      ],
    ],
    [
      `CREATE POLICY p ON data.t TO reader USING ((owner IS DISTINCT FROM writer)) WITH CHECK ((EXISTS ( SELECT FROM reader)));`,
      [
        `CREATE POLICY p ON data.t TO "r_1" USING ((owner IS DISTINCT FROM writer)) WITH CHECK ((EXISTS ( SELECT FROM reader)))`,
      ],
    ],
    [
      `REVOKE ALL ON TABLE data."a;\nb TO writer" FROM writer;\nGRANT SELECT(writer),UPDATE(reader) ON TABLE data.reader TO reader WITH GRANT OPTION;`,
      [
        `REVOKE ALL ON TABLE data."a;\nb TO writer" FROM "w_1"`,
        `GRANT SELECT(writer),UPDATE(reader) ON TABLE data.reader TO "r_1" WITH GRANT OPTION`,
      ],
    ],
    [
      `SET SESSION AUTHORIZATION reader;\nGRANT SELECT ON TABLE data.t TO intern;\nRESET SESSION AUTHORIZATION;`,
      [`GRANT SELECT ON TABLE data.t TO intern`],
    ],
    [
      `ALTER DEFAULT PRIVILEGES FOR ROLE writer IN SCHEMA data GRANT SELECT ON TABLES TO reader;`,
      [`ALTER DEFAULT PRIVILEGES FOR ROLE "w_1" IN SCHEMA data GRANT SELECT ON TABLES TO "r_1"`],
    ],
  ])('get other names, and nothing else changes: %s', async (text, expected) => {
    expect((await renameRoles(text, from, to)).map((one) => one.trim())).toEqual(expected);
  });

  it('are not guessed in a text that is no SQL', async () => {
    await expect(renameRoles('GRANT TO writer SOMETHING;', from, to)).rejects.toThrow('syntax error');
  });
});

describe('the search path', () => {
  const start = Buffer.from("PGDMP\x01\x0e7SELECT pg_catalog.set_config('search_path', '', false);\n\x00rest");
  it('replaces the empty one at the same length, and refuses a dump without it', () => {
    const patched = setSearchPath(start, 'data, extensions');
    expect(patched).toHaveLength(start.length);
    expect(patched.toString()).toMatch(/7SET search_path = data, extensions; {20}\n/);
    expect(patched.subarray(-6)).toEqual(start.subarray(-6));
    expect(() => setSearchPath(Buffer.from('other'), 'data')).toThrow('does not set search_path');
  });
});

describe('the contents of an archive', () => {
  const read = (...parts: Buffer[]) => readToc(Readable.from(parts));
  it('are refused if it is none, is cut off, or of a version that is not known', async () => {
    await expect(read(Buffer.from('SELECT 1;'))).rejects.toThrow('not an archive of pg_dump');
    await expect(read(Buffer.from('PGDMP\x01\x0e'), Buffer.from('\x00\x04'))).rejects.toThrow('cut off');
    await expect(read(Buffer.from('PGDMP\x01\x11\x00\x04\x08\x01'))).rejects.toThrow(
      'format 1.17, which pg_dump 15 to 18 do not write',
    );
  });
});
