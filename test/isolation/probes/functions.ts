/** Every function that can read something, with sensible arguments of each type. */
import type pg from 'pg';

/** One call: an expression of `x.x`, which goes through the rows of `source`. */
export interface Call {
  readonly name: string;
  readonly question: string;
  readonly source: string;
}

const OID_TYPES = new Set([
  ...['oid', 'regclass', 'regproc', 'regprocedure', 'regoper', 'regoperator', 'regtype', 'regrole', 'regnamespace'],
  ...['regconfig', 'regdictionary', 'regcollation', 'regdatabase'],
]);
const NUMBER_TYPES = new Set(['integer', 'bigint', 'smallint']);
const TEXT_TYPES = new Set(['text', 'name', 'cstring']);

/** What stands for an argument that no table of the prober goes through. Other types get a NULL. */
const SAMPLES: Readonly<Record<string, string>> = {
  oid: "'pg_class'::regclass::oid",
  regclass: "'pg_class'::regclass",
  regtype: "'text'::regtype",
  boolean: 'true',
  '"char"': `'r'::"char"`,
  smallint: '1::smallint',
  integer: '1',
  bigint: '1::bigint',
  real: '1::real',
  'double precision': '1::float8',
  numeric: '1::numeric',
  text: "'USAGE'",
  name: "'data'::name",
  cstring: "'a'::cstring",
  'text[]': "ARRAY['a']",
  'oid[]': 'ARRAY[1259::oid]',
  'integer[]': 'ARRAY[1]',
  json: "'{}'::json",
  jsonb: "'{}'::jsonb",
  xml: "'<a/>'::xml",
  bytea: "'a'::bytea",
  uuid: "'00000000-0000-7000-8000-000000000000'::uuid",
  'timestamp with time zone': 'now()',
  'timestamp without time zone': 'now()::timestamp',
  interval: "interval '1 second'",
  inet: "'::1'::inet",
  pg_lsn: "'0/1'::pg_lsn",
  xid: "'3'::xid",
  xid8: "'3'::xid8",
  tid: "'(0,1)'::tid",
  refcursor: "'a'::refcursor",
  aclitem: "'=r/pg_monitor'::aclitem",
  'aclitem[]': "ARRAY['=r/pg_monitor'::aclitem]",
  anyelement: '1',
  anyarray: 'ARRAY[1]',
  '"any"': "'a'::text",
};

/** Each kind of object that default privileges exist for (manual, acldefault). */
const ACL_KINDS = [...'crsdfFlLnpStT'];

interface Candidate {
  name: string;
  types: string[];
}

/**
 * Functions that may see more than their arguments: those that are not IMMUTABLE, and those that take or give away the
 * number of an object. Left out: what waits, and what ends the asking session.
 */
export async function functionCalls(superuser: pg.Client): Promise<Call[]> {
  const { rows } = await superuser.query<Candidate>(
    `SELECT format('%I.%I', n.nspname, p.proname) AS name,
       ARRAY(SELECT format_type(a.type, NULL) FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY AS a (type, i) ORDER BY i)
         AS types
     FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
     WHERE n.nspname IN ('pg_catalog', 'information_schema', '_cdp') AND p.prokind IN ('f', 'p')
       AND (p.provolatile <> 'i' OR p.prorettype = 'aclitem'::regtype OR p.prorettype = 'aclitem[]'::regtype
         OR p.proargtypes::oid[] && ARRAY(SELECT oid FROM pg_type WHERE typname ~ '^(oid|reg|aclitem|char$)'))
       AND NOT p.proargtypes::oid[] && ARRAY['internal'::regtype, 'pg_ddl_command'::regtype]::oid[]
       AND p.prorettype <> ALL (ARRAY['internal', 'trigger', 'event_trigger', 'fdw_handler', 'index_am_handler',
         'table_am_handler', 'tsm_handler', 'language_handler']::regtype[])
       AND p.proname !~ '^pg_(sleep|advisory_|wal_replay_wait|terminate_backend)'
     ORDER BY 1, 2`,
  );
  return rows.flatMap(callsOf);
}

function callsOf({ name, types }: Candidate): Call[] {
  const label = `${name}(${types.join(', ')})`;
  const kinds = name === 'pg_catalog.acldefault' ? ACL_KINDS : ['r'];
  return kinds.flatMap((kind) => {
    const sample = (type: string): string =>
      type === '"char"' ? `'${kind}'::"char"` : (SAMPLES[type] ?? `NULL::${type}`);
    const call = (at: number, source: string): Call => {
      const values = types.map((type, i) => (i === at ? `x.x::${type}` : sample(type)));
      return { name: label, question: `${name}(${values.join(', ')})`, source };
    };
    const through = (set: ReadonlySet<string>, source: string): Call[] =>
      types.flatMap((type, at) => (set.has(type) ? [call(at, source)] : []));
    const calls = [
      ...through(OID_TYPES, 'data.probe_oids'),
      ...through(NUMBER_TYPES, 'data.probe_numbers'),
      ...through(TEXT_TYPES, 'data.probe_texts'),
    ];
    return calls.length > 0 ? calls : [call(-1, '')];
  });
}
