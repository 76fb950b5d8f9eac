/** Results of the service's own statements, as Postgres's text. */
import type { MessageHandler } from './framing.js';
import { BACKEND, readTag, readTextRow } from './messages.js';

/** What came back for one statement of `Session.run`. */
export interface TextResult {
  /** CommandComplete, for instance `INSERT 0 250`. */
  tag: string;
  rows: (string | null)[][];
}

/** Gathers what comes back for statements, in their order. */
export function textResults(results: TextResult[]): MessageHandler {
  let rows: (string | null)[][] = [];
  return (type, buffer, start, end) => {
    if (type === BACKEND.dataRow) rows.push(readTextRow(buffer, start, end));
    else if (type === BACKEND.commandComplete || type === BACKEND.emptyQuery) {
      results.push({ tag: type === BACKEND.emptyQuery ? '' : readTag(buffer, start, end), rows });
      rows = [];
    }
  };
}
