/** What Tab offers in the shell: commands, names of tables and columns, and the words of SQL that people type most. */
import type { Table } from '../../../contract/wire/tables.js';
import { printable } from '../../terminal/text.js';

/** Nearly all are reserved: a name that is one of them needs quotes. */
const KEYWORDS: readonly string[] = (
  'ALL ALTER ANALYZE AND ANY ARRAY AS ASC BETWEEN BY CASE CAST CHECK COLUMN CONSTRAINT CREATE CROSS DEFAULT DELETE DESC ' +
  'DISTINCT DO DROP ELSE END EXCEPT EXISTS EXPLAIN FALSE FOREIGN FROM FULL FUNCTION GROUP HAVING ILIKE IN INDEX INNER ' +
  'INSERT INTERSECT INTO IS JOIN LATERAL LEFT LIKE LIMIT NOT NULL OFFSET ON OR ORDER OUTER PRIMARY REFERENCES RETURNING ' +
  'RIGHT SELECT SET TABLE THEN TO TRUE UNION UNIQUE UPDATE USING VACUUM VALUES VIEW WHEN WHERE WINDOW WITH'
).split(' ');

/** @returns the choices, and what of the line each of them replaces */
export function complete(
  line: string,
  tables: readonly Pick<Table, 'name' | 'columns'>[],
  commands: readonly string[],
): [choices: string[], replaced: string] {
  const [word = ''] = /^\s*\\\S*$|"[^"]*$|[\p{L}\p{N}_$]*$/u.exec(line) ?? [];
  const tableNames = tables.map(quotedName);
  const all = word.trim().startsWith('\\')
    ? commands
    : word === ''
      ? tableNames
      : [
          ...tableNames,
          ...tables.flatMap(({ columns }) => columns.map(quotedName)),
          ...KEYWORDS.map((keyword) => (word === word.toLowerCase() ? keyword.toLowerCase() : keyword)),
        ];
  const beginning = bare(word.trim());
  const found = [...new Set(all)].filter(
    (choice) => bare(choice).startsWith(beginning) && printable(choice) === choice,
  );
  return [found.length === 1 ? found.map((only) => `${only} `) : found.sort(), word.trim()];
}

const bare = (text: string): string => text.replace(/^"/, '').toLowerCase();

const quotedName = ({ name }: { readonly name: string }): string =>
  /^[a-z_][a-z0-9_$]*$/.test(name) && !KEYWORDS.includes(name.toUpperCase()) ? name : `"${name.replaceAll('"', '""')}"`;
