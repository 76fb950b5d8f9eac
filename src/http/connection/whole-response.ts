/**
 * Node's response with a short way out for an answer that is there as a whole. Node's own way checks each header, looks at
 * each for what it might mean for the connection, and writes head, body and end as pieces; for an answer of a hundred
 * bytes that costs more than everything else that is done for it here.
 */
import { type IncomingMessage, ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { endUnread } from './framing.js';
import { SECURITY_HEADERS } from './security-headers.js';

/** A connection without a request is kept for so long. */
export const KEPT_MS = 72_000;

export const JSON_TYPE = 'application/json; charset=utf-8';

const FIXED = Object.entries({
  ...SECURITY_HEADERS,
  'content-type': JSON_TYPE,
  connection: 'keep-alive',
  'keep-alive': `timeout=${KEPT_MS / 1_000}`,
})
  .map(([name, value]) => `${name}: ${value}\r\n`)
  .join('');

/** What `writeHead` would make of the answer's fixed part: as long as the second lasts, by status. */
const heads = new Map<number, string>();
let second = -1;

function headOf(status: number): string {
  const now = Math.floor(Date.now() / 1_000);
  if (now !== second) {
    heads.clear();
    second = now;
  }
  let head = heads.get(status);
  if (head === undefined) {
    const line = ['HTTP/1.1', status, STATUS_CODES[status]].join(' ');
    head = `${line}\r\n${FIXED}date: ${new Date(now * 1_000).toUTCString()}\r\n`;
    heads.set(status, head);
  }
  return head;
}

export class WholeResponse<Request extends IncomingMessage = IncomingMessage> extends ServerResponse<Request> {
  /** The head as it goes out, which is what Node keeps here: with it, nothing looks at headers any more. */
  declare private _header: string | null;
  /** Writes a text in one piece with the head. Behind earlier answers on the connection it waits for its turn. */
  declare private _send: (text: string, encoding: BufferEncoding) => boolean;
  /** Node's note that the answer is over. */
  declare private _closed: boolean;
  /** Node's note that the connection ends behind this answer. */
  declare private _last: boolean;

  /**
   * Begins a successful answer of JSON as `writeHead` would, where nothing is special about it.
   * @param lines further headers with their line ends, which hold nothing that a header may not hold
   * @returns false where it is not begun: the connection does not stay, or there is no body
   */
  beginOrdinary(status: number, lines: string): boolean {
    if (!this.shouldKeepAlive || this.hasHeader('connection')) return false;
    if (this.req.method === 'HEAD' || this.headersSent) return false;
    this.statusCode = status;
    this._header = `${headOf(status)}${lines}\r\n`;
    return true;
  }

  /** @param body all of it as Latin-1, one character for each of its bytes; its length is in the head */
  endText(body: string): void {
    if (this.req.method !== 'HEAD') this._send(body, 'latin1');
    this.end();
  }

  /** Its connection has gone before its turn came, which Node says only of the answer whose turn it is. */
  breakOff(): void {
    if (this.socket !== null || this._closed) return;
    this._closed = true;
    this.destroy();
    this.emit('close');
  }

  /** Behind this Node closes a connection that ends, although its client may still be sending a body that was refused. */
  override detachSocket(socket: Socket): void {
    super.detachSocket(socket);
    if (!this._last || this.req.complete) return;
    this._last = false;
    endUnread(socket);
  }
}
