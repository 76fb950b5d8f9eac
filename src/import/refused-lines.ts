/** A refused record, and its line in the file of such records, which a user can correct and import (`source.ts`). */
import type { ErrorDetail } from '../contract/errors.js';
import { type JsonRecord, membersOf } from './json-records.js';

/** The beginning of a file of refused records, in any JSON formatting. */
export const REFUSED_FILE = /^\s*\{\s*"file"\s*:\s*"(?:[^"\\]|\\.)*"\s*,\s*"line"\s*:\s*\d+\s*,\s*"record"\s*:/;

/**
 * Reads only `record` of each line; in quotes, it is the text of a line that was not JSON. An object without it was added
 * by the user, and is itself a record.
 */
export async function* correctedRecords(refused: AsyncIterable<JsonRecord>): AsyncGenerator<JsonRecord, void> {
  for await (const { line, text } of refused) {
    const [, record = text] = membersOf(text)?.find(([name]) => name === 'record') ?? [];
    yield { line, text: record.startsWith('"') ? (JSON.parse(record) as string) : record };
  }
}

/** The member of such an object. No table has a column with this name, so it cannot be imported by mistake. */
export const AS_READ = '(fields as read)';

/** A record of a file as it is sent. */
export interface EncodedRecord {
  readonly line: number;
  readonly json: string;
  /** Why it cannot be sent; `json` then contains what could be read, for the user to correct. */
  readonly problem?: ErrorDetail;
  /** `json` as an object, if it is not one: a file of refused records must be importable. */
  readonly object?: string;
}

export interface RefusedLine {
  record: EncodedRecord;
  errors: readonly ErrorDetail[];
}

/** The message without the position in its batch, which means nothing to a user. */
export const messageIn = ({ message }: ErrorDetail): string => message.replace(/^Record \d+(?:: |, )/, '');

/** A line of NDJSON. `record` is the JSON that was or would have been sent. */
export function refusedLine(file: string, { record: { line, json, object = json }, errors }: RefusedLine): string {
  const shown = errors.map((detail) => {
    const { column, error, hint } = detail;
    return { column, error, message: messageIn(detail), hint };
  });
  return `{"file":${JSON.stringify(file)},"line":${line},"record":${object},"errors":${JSON.stringify(shown)}}\n`;
}
