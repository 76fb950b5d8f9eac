/** A file of refused records that somebody has corrected: of each of its objects the record alone is taken (`refused-file.ts`). */
import { membersOf, textOf } from './json-members.js';
import type { JsonRecord } from './json-records.js';

const BEGINNING = /^\s*\{\s*"file"\s*:\s*"(?:[^"\\]|\\.)*"\s*,\s*"line"\s*:\s*\d+\s*,\s*"record"\s*:/;

/** @param head the first characters of a file */
export const isOfRefused = (head: string): boolean => BEGINNING.test(head);

/** An object that has no record was added by somebody, and is one. */
export async function* corrected(refused: AsyncIterable<JsonRecord>): AsyncGenerator<JsonRecord, void> {
  for await (const { line, text } of refused) {
    const record = membersOf(text)?.find(([name]) => name === 'record');
    yield { line, text: record === undefined ? text : textOf(record[1]) };
  }
}
