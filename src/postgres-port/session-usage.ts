/** Counts what a session of the Postgres port uses, from the messages of Postgres that pass. */
import type { ClientSession } from '../engine/sessions/client-session.js';
import { readCommandTag } from '../pg/index.js';
import { BACKEND } from '../pg/protocol.js';

/** Types of messages for {@link SessionUsage.onServerMessage}. */
export const COUNTED_MESSAGES: readonly number[] = [
  BACKEND.commandComplete,
  BACKEND.copyInResponse,
  BACKEND.copyOutResponse,
  BACKEND.readyForQuery,
];

const CHANGES: ReadonlySet<string> = new Set(['INSERT', 'UPDATE', 'DELETE', 'MERGE']);
const RETURNS: ReadonlySet<string> = new Set(['SELECT', 'FETCH', 'SHOW']);

export class SessionUsage {
  /** The direction of the COPY that runs; null: none does. */
  private copies: 'rows_in' | 'rows_out' | null = null;
  /** A COPY runs, or has run in the bytes that have just arrived. */
  private hasCopied = false;
  /** When Postgres began to work; null: it waits for the client. */
  private busySince: number | null = null;

  constructor(private readonly session: ClientSession) {}

  private get counts() {
    return this.session.used[this.copies === null ? 'postgres' : 'copy'];
  }

  received(bytes: number): void {
    this.counts.bytes_in += bytes;
    this.busySince ??= performance.now();
  }

  /** Call this after {@link onServerMessage} for the messages in these bytes. */
  sent(bytes: number): void {
    this.session.used[this.hasCopied ? 'copy' : 'postgres'].bytes_out += bytes;
    this.hasCopied = this.copies !== null;
  }

  /** @param body of a long message only the beginning */
  onServerMessage(type: number, body: Buffer): void {
    if (type === BACKEND.copyInResponse || type === BACKEND.copyOutResponse) {
      this.copies = type === BACKEND.copyInResponse ? 'rows_in' : 'rows_out';
      this.hasCopied = true;
    }
    if (type === BACKEND.commandComplete) this.endStatement(body.toString('latin1', 0, body.indexOf(0)));
    else if (type === BACKEND.readyForQuery) {
      this.endWork();
      this.copies = null;
    }
  }

  private endStatement(tag: string): void {
    const { type, count = 0 } = readCommandTag(tag);
    const { counts, copies } = this;
    counts.requests++;
    if (copies !== null) counts[copies] += count;
    else if (CHANGES.has(type)) counts.rows_in += count;
    else if (RETURNS.has(type)) counts.rows_out += count;
    this.endWork();
    this.busySince = performance.now();
    this.copies = null;
  }

  private endWork(): void {
    if (this.busySince !== null) this.counts.statement_ms += performance.now() - this.busySince;
    this.busySince = null;
  }
}
