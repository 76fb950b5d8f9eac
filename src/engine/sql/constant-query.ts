/**
 * Which statements provably leave nothing in their session, whatever the project has made in its database: queries of
 * nothing but constants and parameters, as pools of connections and monitors send them. Their words are all Postgres's own
 * grammar, so that no relation, function or operator is looked up that could be the project's, and the types are found in
 * pg_catalog, which comes first in the search path of a clean session. Everything else may run code of the project.
 */

const SPACE = String.raw`[ \t\n\r\f]`;

/** Without a backslash or a quote inside: its end is the same whatever the settings are. */
const VALUE = String.raw`(?:\d{1,18}(?:\.\d{1,18})?|'[^'\\]*'|\$\d{1,5}|true|false|null)`;

/** Built in, and never a domain, which could check its values with the project's code. */
const TYPE =
  '(?:smallint|int2|integer|int|int4|bigint|int8|numeric|float8|boolean|bool|text|uuid|date|timestamptz|jsonb)';

const NAME = String.raw`(?:[a-z_][a-z0-9_]*|"[^"]+")`;

const COLUMN = `${VALUE}(?:::${TYPE})?(?:${SPACE}+as${SPACE}+${NAME})?`;

const CONSTANT_QUERY = new RegExp(
  `^${SPACE}*select${SPACE}+${COLUMN}(?:${SPACE}*,${SPACE}*${COLUMN})*${SPACE}*(?:;${SPACE}*)?$`,
  'i',
);

export const isConstantQuery = (text: string): boolean => CONSTANT_QUERY.test(text);

/** Postgres reads a literal when it parses the statement: the time that 'now' or 'today' stands for stays in it. */
const READS_THE_CLOCK = /::(?:date|timestamptz)/i;

/** Whether a query of constants that was parsed once says the same whenever it is run again. */
export const isTimeless = (text: string): boolean => !READS_THE_CLOCK.test(text);
