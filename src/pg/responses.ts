/** Collects Postgres's responses to the statements of a pipeline. */
import type { MessageHandler } from './framing.js';
import { BACKEND, readTag, readTextRow } from './messages.js';

/** A row in text format. */
export type Row = (string | null)[];

export interface Result {
  /** Command tag, for instance `INSERT 0 250`. */
  readonly tag: string;
  readonly rows: Row[];
}

/** Collects the results of a pipeline's steps, in their order. */
export class Responses {
  readonly results: Result[] = [];
  private rows: Row[] = [];

  constructor(private readonly count: number) {}

  readonly onMessage: MessageHandler = (type, buffer, start, end) => {
    if (type === BACKEND.dataRow) this.rows.push(readTextRow(buffer, start, end));
    else if (type === BACKEND.commandComplete) this.ended(readTag(buffer, start, end));
    else if (type === BACKEND.emptyQuery) this.ended('');
  };

  /** Results after the last step belong to the reset. */
  private ended(tag: string): void {
    if (this.results.length < this.count) this.results.push({ tag, rows: this.rows });
    this.rows = [];
  }
}
