/**
 * A refused record, and its line in the file of such records. A user can correct that file and import it (`source.ts`).
 */
import type { ErrorDetail } from '../contract/errors.js';
import type { EncodedRecord } from './record-encoder.js';

export interface RefusedRecord {
  record: EncodedRecord;
  errors: readonly ErrorDetail[];
}

/** The message without the position in its batch, which means nothing to a user. */
export const messageIn = ({ message }: ErrorDetail): string => message.replace(/^Record \d+(?:: |, )/, '');

/** A line of NDJSON. `record` is the JSON that was or would have been sent. */
export function refusedLine(file: string, { record: { line, json, object = json }, errors }: RefusedRecord): string {
  const shown = errors.map((place) => {
    const { column, error, hint } = place;
    return { column, error, message: messageIn(place), hint };
  });
  return `{"file":${JSON.stringify(file)},"line":${line},"record":${object},"errors":${JSON.stringify(shown)}}\n`;
}
