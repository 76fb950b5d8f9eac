/** Rows in the text format of COPY (Postgres manual, COPY, Text Format). */

type Row = readonly (string | null | undefined)[];

/**
 * @param row values in Postgres's text format; null and undefined are NULL
 * @param columns the indexes of those that the COPY names; default: all
 */
export function copyLine(row: Row, columns: readonly number[] | null = null): string {
  const fields = (columns ?? [...row.keys()]).map((index) => field(row[index]));
  return `${fields.join('\t')}\n`;
}

const SPECIAL = /[\\\n\r\t]/;
const ESCAPES: Record<string, string> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };

function field(value: string | null | undefined): string {
  if (value == null) return '\\N';
  // Most values have none.
  if (!SPECIAL.test(value)) return value;
  return value.replace(/[\\\n\r\t]/g, (character) => ESCAPES[character] ?? character);
}
