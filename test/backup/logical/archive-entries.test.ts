/** Which entries of an archive a restore takes, by pg_restore's list, and the statements that follow. */
import { describe, expect, it } from 'vitest';
import { chooseEntries, setSearchPath } from '../../../src/backup/logical/archive-entries.js';
import { entriesOf } from '../../../src/backup/logical/dump-entries.js';
import { statementsOf } from '../../../src/backup/logical/dump-statements.js';

const choose = (...lines: string[]) =>
  chooseEntries([';', '; Archive created at …', ...lines, ''].join('\n'), 'data', 'w_1');

describe('an entry of the list', () => {
  it.each([
    '218; 1259 16521 TABLE data t w_1',
    '3499; 0 16521 TABLE DATA data t w_1',
    '3499; 0 16521 TABLE DATA data SCHEMA - _cdp w_1',
    '2; 0 0 SEQUENCE SET data s w_1',
    '2; 0 0 FK CONSTRAINT data t t_fkey w_1',
    '2; 3256 1 ROW SECURITY data t w_1',
    '2; 0 0 COMMENT data TABLE "POLICY x" w_1',
    '3183; 2605 16534 CAST - CAST (integer AS data.mood) ',
    '3500; 2613 16535 BLOB - 16535 w_1',
    '3500; 2613 16535 BLOB METADATA - 16535..16540 w_1',
    '3501; 0 0 BLOBS - BLOBS ',
    '3; 0 0 COMMENT - CAST (integer AS data.mood) ',
    '3; 0 0 COMMENT - LARGE OBJECT 16535 w_1',
    '3496; 0 16444 TABLE DATA _cdp idempotency_keys cdp_service',
  ])('goes to pg_restore: %s', (line) => expect(choose(line)).toMatchObject({ contents: [line], statements: [] }));

  it.each([
    '3598; 0 0 ACL data TABLE t w_1',
    '3598; 0 0 ACL - LARGE OBJECT 16535 w_1',
    '2175; 826 16520 DEFAULT ACL data DEFAULT PRIVILEGES FOR SEQUENCES w_1',
    '3495; 3256 16536 POLICY data t pp w_1',
    '3495; 0 0 COMMENT data POLICY pp ON t w_1',
    '3495; 0 16521 MATERIALIZED VIEW DATA data m w_1',
  ])('follows as a statement: %s', (line) => expect(choose(line)).toMatchObject({ contents: [], statements: [line] }));

  it.each([
    '6; 2615 16441 SCHEMA - data cdp_service',
    '3510; 0 0 ACL - SCHEMA data cdp_service',
    '3510; 0 0 COMMENT - SCHEMA data cdp_service',
    '2; 3079 16402 EXTENSION - pg_trgm ',
    '3; 0 0 COMMENT - EXTENSION pg_trgm ',
    '220; 1255 16443 FUNCTION _cdp uuid_v7() cdp_service',
    '3498; 0 16500 TABLE DATA _cdp preparation cdp_service',
    '215; 1259 16444 TABLE _cdp idempotency_keys cdp_service',
    '3510; 0 0 ACL pg_catalog TABLE pg_database cdp_service',
    '1; 1255 9 FUNCTION extensions f() cdp_service',
    '1; 1255 9 FUNCTION database f() cdp_service',
    '3183; 2605 16534 CAST - CAST (regrole AS text) ',
    '3499; 3466 16400 EVENT TRIGGER - cdp_autosummarize cdp_service',
    'nonsense data',
  ])('is left out: %s', (line) => expect(choose(line)).toMatchObject({ contents: [], statements: [] }));
});

describe('of a schema that the writer created', () => {
  const SCHEMA = '7; 2615 16600 SCHEMA - drizzle w_1';
  it.each([
    ['contents', '218; 1259 16521 TABLE drizzle t w_1'],
    ['contents', '3183; 2605 16534 CAST - CAST (integer AS drizzle.state) '],
    ['contents', '3510; 0 0 COMMENT - SCHEMA drizzle w_1'],
    ['statements', '3510; 0 0 ACL - SCHEMA drizzle w_1'],
  ])('%s has %s, but not the CREATE SCHEMA', (where, line) => {
    const nothing = { contents: [], statements: [], ownSchemas: ['drizzle'] };
    expect(choose(SCHEMA, line)).toEqual({ ...nothing, [where]: [line] });
    expect(choose(SCHEMA.replace('w_1', 'cdp_service'), line)).toEqual({ ...nothing, ownSchemas: [] });
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
  it('are only those of the entries, with single grants and the roles of the target', () => {
    const [from, to] = [
      { writer: 'w_old', reader: 'r_old' },
      { writer: 'w_new', reader: 'r_new' },
    ];
    const statements = entriesOf(script).flatMap((entry) => statementsOf(entry, from, to));
    expect(statements).toEqual([
      { text: "CREATE POLICY pp ON data.t TO w_new USING ((a = ';\n--\n'::text));", isRight: true },
      { text: "COMMENT ON POLICY pp ON data.t IS 'TO w_old';", isRight: true },
      { text: 'REVOKE ALL ON TABLE data.t FROM w_new;', isRight: true },
      { text: 'GRANT SELECT ON TABLE data.t TO r_new;', isRight: true },
    ]);
    expect(entriesOf('')).toEqual([]);
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
