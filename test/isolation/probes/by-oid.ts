/** What an OID reveals: every `reg*` cast and every function that takes an OID, for all numbers in the range. */
import type { Probe } from './probe.js';

const CASTS = [
  ...['regclass', 'regproc', 'regprocedure', 'regoper', 'regoperator', 'regtype', 'regrole', 'regnamespace'],
  ...['regconfig', 'regdictionary', 'regcollation'],
].flatMap((type) => [`o::${type}::text`, `format('%s', o::${type})`, `to_json(o::${type})::text`]);

const CATALOGS = [
  ...['pg_class', 'pg_type', 'pg_proc', 'pg_constraint', 'pg_trigger', 'pg_rewrite', 'pg_policy', 'pg_namespace'],
  ...['pg_operator', 'pg_collation', 'pg_ts_config', 'pg_statistic_ext', 'pg_database', 'pg_authid', 'pg_largeobject'],
];

const FUNCTIONS = [
  ...[
    'format_type(o, NULL)',
    'format_type(o, 1)',
    'pg_get_userbyid(o)::text',
    'pg_get_viewdef(o)',
    'pg_get_ruledef(o)',
  ],
  ...['pg_get_triggerdef(o)', 'pg_get_constraintdef(o)', 'pg_get_indexdef(o)', 'pg_get_indexdef(o, 1, true)'],
  ...['pg_get_function_arguments(o)', 'pg_get_function_identity_arguments(o)', 'pg_get_function_result(o)'],
  ...['pg_get_statisticsobjdef(o)', 'pg_get_partkeydef(o)', 'pg_get_partition_constraintdef(o)', 'obj_description(o)'],
  ...['pg_get_function_arg_default(o, 1)', 'pg_get_function_sqlbody(o)', 'pg_relation_filepath(o)'],
  ...['pg_table_is_visible(o)::text', 'pg_type_is_visible(o)::text', 'pg_function_is_visible(o)::text'],
  ...['pg_sequence_last_value(o::regclass)::text', 'pg_relation_size(o)::text', 'col_description(o, 1)'],
  ...['pg_partition_root(o)::text', 'pg_basetype(o)::text', 'pg_typeof(o::regclass)::text'],
  ...["acldefault('r', o)::text", "acldefault('f', o)::text", 'aclexplode(acldefault($$d$$, o))::text'],
  ...["makeaclitem(o, o, 'SELECT', false)::text", "ARRAY[makeaclitem(o, 10, 'SELECT', true)]::text"],
  ...["row_to_json(aclexplode(ARRAY[makeaclitem(o, o, 'SELECT', false)]))::text"],
  ...["has_table_privilege(o, 'SELECT')::text", "has_database_privilege(o, 'CONNECT')::text"],
  ...["has_schema_privilege(o, 'USAGE')::text", "has_function_privilege(o, 'EXECUTE')::text"],
  ...["pg_has_role(o, 'USAGE')::text", 'to_regrole(o::text)::text', 'to_regclass(o::text)::text'],
  '(SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE oid = o)',
  ...CATALOGS.map((catalog) => `obj_description(o, '${catalog}')`),
  ...CATALOGS.map((catalog) => `shobj_description(o, '${catalog}')`),
];

/** A right as one is made of numbers alone, whoever has them. */
const NUMBERS =
  '^\\(\\d+,\\d+,[A-Z_]+,[ft]\\)$|^\\{"grantor":\"?\\d+\"?,"grantee":\"?\\d+\"?,"privilege_type":"[A-Z_]+","is_grantable":(true|false)\\}$';

/** @param last the highest number in use */
export function byOidProbes(last: number): Probe[] {
  return [...CASTS, ...FUNCTIONS].map((expression) => ({
    name: `all numbers: ${expression}`,
    sql: `SELECT o, a FROM (SELECT o::oid, ${expression} AS a FROM generate_series(1, ${last}) AS o) AS asked
      WHERE o >= 16384 AND a NOT IN (o::text, '"' || o || '"', 'false', 'unknown (OID=' || o || ')', '???') AND a !~ '${NUMBERS}'`,
  }));
}
