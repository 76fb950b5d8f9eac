/** Rows in the text format of COPY (Postgres manual, COPY, Text Format). */

/** @param row values in Postgres's text format; null and undefined are NULL */
export const copyLine = (row: readonly (string | null | undefined)[]): string => `${row.map(field).join('\t')}\n`;

const ESCAPES: Record<string, string> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };

const field = (value: string | null | undefined): string =>
  value == null ? '\\N' : value.replace(/[\\\n\r\t]/g, (character) => ESCAPES[character] ?? character);
