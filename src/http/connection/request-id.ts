/** The id of a request: its caller's own, where it has a sane one, or a UUID of version 4 (RFC 9562). */
import { randomFillSync } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** One that is passed on cannot do harm in a header or a log. */
const SANE = /^[\w.:/+=-]{1,128}$/;

export function requestIdOf({ headers }: IncomingMessage): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && SANE.test(given) ? given : newRequestId();
}

const LENGTH = 36;
/** Made at once, for `randomUUID` puts each together from twenty texts, which are joined when it is first written. */
const IDS = 128;
const random = new Uint8Array(16 * IDS);
const written = Buffer.alloc(LENGTH * IDS, '-');
const DIGITS = Buffer.from('0123456789abcdef');
/** Where the two digits of each byte begin: behind the dashes before it. */
const PLACES = Array.from(
  { length: 16 },
  (_, byte) => 2 * byte + [4, 6, 8, 10].filter((dashed) => dashed <= byte).length,
);

let ids = '';
let next = 0;

export function newRequestId(): string {
  if (next === ids.length) {
    ids = writeIds();
    next = 0;
  }
  return ids.slice(next, (next += LENGTH));
}

function writeIds(): string {
  randomFillSync(random);
  for (let id = 0; id < IDS; id++) {
    const bytes = 16 * id;
    random[bytes + 6] = ((random[bytes + 6] as number) & 0x0f) | 0x40;
    random[bytes + 8] = ((random[bytes + 8] as number) & 0x3f) | 0x80;
    for (let i = 0; i < 16; i++) {
      const byte = random[bytes + i] as number;
      const at = LENGTH * id + (PLACES[i] as number);
      written[at] = DIGITS[byte >> 4] as number;
      written[at + 1] = DIGITS[byte & 15] as number;
    }
  }
  return written.toString('latin1');
}
