/**
 * Whether an insert can run code of the project, as conditions on a row `c` of pg_class. As in `catalog.ts`, names are
 * qualified, and operands have exactly the types of their operators.
 */
import { type Fragment, FIRST_NORMAL_OID, sql, type Statement } from '../../pg/index.js';

/** Objects below it exist in every database, and dependencies on them are not recorded (FirstUnpinnedObjectId). */
const FIRST_UNPINNED_OID = 12_000;

/**
 * The service's own default of `id`, as a stored expression. Not from pg_get_expr, which waits for locks on the table.
 */
const ID_DEFAULT = sql`pg_catalog.concat('{FUNCEXPR :funcid ', '_cdp.uuid_v7'::pg_catalog.regproc::pg_catalog.oid, ' ')`;

/** For a row `d` of pg_attrdef. */
const isServiceDefault = sql`pg_catalog.starts_with(d.adbin::pg_catalog.text, ${ID_DEFAULT})`;

/** For a row `g` of pg_trigger. */
const FOR_INSERT = sql`g.tgtype & 4::pg_catalog.int2 <> 0::pg_catalog.int2`;
const FOR_UPDATE = sql`g.tgtype & 16::pg_catalog.int2 <> 0::pg_catalog.int2`;

const trigger = (which: Fragment): Fragment =>
  sql`EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgrelid = c.oid AND ${which})`;

/** A trigger that an insert fires: Postgres creates one for a foreign key. */
export const insertTrigger = (which: Fragment): Fragment => trigger(sql`${FOR_INSERT} AND ${which}`);

/** A trigger that an update fires: Postgres creates one for a table that a foreign key refers to. */
export const updateTrigger = trigger(FOR_UPDATE);

/** Columns whose type `y` a user created. */
export const ownTypes = sql`SELECT FROM pg_catalog.pg_attribute b JOIN pg_catalog.pg_type y ON y.oid = b.atttypid
  WHERE b.attrelid = c.oid AND b.attnum > 0 AND y.oid >= ${FIRST_NORMAL_OID}::pg_catalog.oid`;

/** Checks, defaults and index expressions: the catalog, the oid and the stored tree of each. */
const expressions = sql`
  SELECT k.tableoid AS catalog, k.oid, k.conbin::pg_catalog.text AS tree
    FROM pg_catalog.pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'c'
  UNION ALL SELECT d.tableoid, d.oid, d.adbin::pg_catalog.text
    FROM pg_catalog.pg_attrdef d WHERE d.adrelid = c.oid AND NOT ${isServiceDefault}
  UNION ALL SELECT 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid, i.indexrelid,
      pg_catalog.concat(i.indexprs, i.indpred)
    FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)`;

/**
 * Nodes of stored expressions (primnodes.h) that call only the function that they name, or compare values of a
 * built-in type. The last names are the spellings of Postgres 15.
 */
const HARMLESS_NODES = `{VAR,CONST,FUNCEXPR,OPEXPR,DISTINCTEXPR,NULLIFEXPR,SCALARARRAYOPEXPR,BOOLEXPR,NULLTEST,BOOLEANTEST,RELABELTYPE,
  ARRAYCOERCEEXPR,CASEEXPR,CASEWHEN,CASETESTEXPR,COALESCEEXPR,MINMAXEXPR,ARRAYEXPR,SQLVALUEFUNCTION,CASE,WHEN,COALESCE,MINMAX,ARRAY}`;

/** Functions that read a clock or a random number, and leave no visible state in the session. */
const HARMLESS_FUNCTIONS = `{now,transaction_timestamp,statement_timestamp,clock_timestamp,gen_random_uuid,uuidv4,uuidv7,random}`;

/** date, time, timestamp, timestamptz, interval: a stable function of these alone depends only on settings. */
const TIME_TYPES = `1082 1083 1114 1184 1186`;

/**
 * For a row `p` of pg_proc: built in, and immutable, or in HARMLESS_FUNCTIONS, or stable with arguments of TIME_TYPES
 * only. Not every stable function is harmless: table_to_xml() reads views.
 */
const isHarmless = sql`p.oid < ${FIRST_UNPINNED_OID}::pg_catalog.oid AND (p.provolatile = 'i'
  OR p.proname = ANY (${HARMLESS_FUNCTIONS}::pg_catalog.name[])
  OR p.provolatile = 's' AND p.pronargs > 0::pg_catalog.int2
    AND pg_catalog.string_to_array(p.proargtypes::pg_catalog.text, ' ') OPERATOR(pg_catalog.<@) pg_catalog.string_to_array(${TIME_TYPES}, ' '))`;

/**
 * For an expression `e`: it depends on an object of the project other than the table, or runs something not known to
 * be harmless.
 */
const runsMore = sql`EXISTS (SELECT FROM pg_catalog.pg_depend x WHERE x.classid = e.catalog AND x.objid = e.oid
    AND NOT (x.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid AND x.refobjid = c.oid))
  OR EXISTS (SELECT FROM pg_catalog.regexp_matches(e.tree, '[{]([^ }]*)', 'g') AS n (found)
    WHERE NOT n.found[1] = ANY (${HARMLESS_NODES}::pg_catalog.text[]))
  OR EXISTS (SELECT FROM pg_catalog.regexp_matches(e.tree, ':(?:op)?funcid ([0-9]+)', 'g') AS n (found)
    WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.oid = n.found[1]::pg_catalog.oid AND ${isHarmless}))`;

/**
 * Code that an insert runs in addition to the table's expressions. A foreign key counts: planning its query evaluates
 * the index expressions of the other table.
 */
const runsOther = sql`${insertTrigger(sql`true`)}
  OR EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.conrelid = c.oid AND k.contype NOT IN ('p', 'u', 'n', 'c'))
  OR EXISTS (${ownTypes} AND y.typtype <> 'e')`;

/** For changes of the table, which may parse its expressions again and then resolve to the project's operators. */
export const changeRunsCode = sql`${runsOther} OR EXISTS (${expressions})`;

/** Functions named, at most. */
const MENTIONS = 50;

/**
 * Functions of the project whose text has a word, whatever its case, and the table's triggers that call them. The parsed
 * body of BEGIN ATOMIC follows a renaming.
 */
export const functionsThatMention = (schema: string, table: string, word: string): Statement =>
  sql`SELECT pg_catalog.concat(CASE WHEN n.nspname = ${schema}::pg_catalog.name THEN '' ELSE pg_catalog.concat(n.nspname, '.') END,
      p.proname, '(', pg_catalog.pg_get_function_identity_arguments(p.oid), ')') AS name,
    pg_catalog.array_to_json(ARRAY(SELECT g.tgname FROM pg_catalog.pg_trigger g JOIN pg_catalog.pg_class c ON c.oid = g.tgrelid
      WHERE g.tgfoid = p.oid AND NOT g.tgisinternal AND c.relname = ${table}::pg_catalog.name
        AND c.relnamespace = ${schema}::pg_catalog.regnamespace::pg_catalog.oid ORDER BY g.tgname))
  FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
  WHERE p.oid >= ${FIRST_NORMAL_OID}::pg_catalog.oid AND n.nspname <> ALL ('{_cdp,extensions}'::pg_catalog.name[])
    AND p.prosqlbody IS NULL AND p.prosrc ~* ${wordPattern(word)}::pg_catalog.text
  ORDER BY 1 LIMIT ${MENTIONS}`;

/** Constraint escapes (Postgres manual, Regular Expression Escapes) are for ends that are letters, digits or `_`. */
function wordPattern(word: string): string {
  const escaped = word.replace(/[^\w\x80-\uffff]/g, '\\$&');
  const isWord = (character: string | undefined) => /[\w\x80-\uffff]/.test(character ?? '');
  return `${isWord(word.at(0)) ? '\\m' : ''}${escaped}${isWord(word.at(-1)) ? '\\M' : ''}`;
}

/** Even an enum makes some built-in functions look for a cast that the project may have created. */
export const insertRunsCode = sql`${runsOther} OR EXISTS (SELECT FROM (${expressions}) e WHERE EXISTS (${ownTypes}) OR ${runsMore})`;
