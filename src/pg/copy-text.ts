/** Rows in the text format of COPY (Postgres manual, COPY, Text Format). */

/** @param row values in Postgres's text format; null and undefined are NULL */
export function copyLine(row: readonly (string | null | undefined)[]): string {
  let line = '';
  for (let i = 0; i < row.length; i++) line += i === 0 ? field(row[i]) : `\t${field(row[i])}`;
  return `${line}\n`;
}

const SPECIAL = /[\\\n\r\t]/;
const ESCAPES: Record<string, string> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };

function field(value: string | null | undefined): string {
  if (value == null) return '\\N';
  // Most values have none.
  if (!SPECIAL.test(value)) return value;
  return value.replace(/[\\\n\r\t]/g, (character) => ESCAPES[character] ?? character);
}
