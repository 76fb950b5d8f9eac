/**
 * Packets that a client sends before a session, which have no type byte (Postgres manual 54.2.1, 54.2.8 to 54.2.11,
 * 54.7).
 */

/** Postgres's own limit (MAX_STARTUP_PACKET_LENGTH). */
const MAX_START_UP_BYTES = 10_000;

const CODE = { cancel: 80877102, ssl: 80877103, gss: 80877104 } as const;

export type StartUp =
  | { readonly kind: 'ssl' }
  | { readonly kind: 'gss' }
  | { readonly kind: 'cancel'; readonly processId: number; readonly secretKey: Buffer }
  | { readonly kind: 'start-up'; readonly minor: number; readonly parameters: ReadonlyMap<string, string> }
  | { readonly kind: 'unsupported'; readonly version: string };

/**
 * @param bytes all bytes that have arrived
 * @returns the size of the first packet; null if its length has not arrived yet
 * @throws Error if this cannot be a packet
 */
export function startUpSize(bytes: Buffer): number | null {
  if (bytes.length < 4) return null;
  const size = bytes.readInt32BE(0);
  if (size < 8 || size > MAX_START_UP_BYTES) throw new Error('invalid length of startup packet');
  return size;
}

/**
 * @param packet complete, including its length
 * @throws Error if it is malformed
 */
export function readStartUp(packet: Buffer): StartUp {
  const code = packet.readInt32BE(4);
  if (code === CODE.ssl || code === CODE.gss) {
    if (packet.length !== 8) throw new Error('invalid length of startup packet');
    return { kind: code === CODE.ssl ? 'ssl' : 'gss' };
  }
  if (code === CODE.cancel) {
    if (packet.length < 16) throw new Error('invalid length of startup packet');
    return { kind: 'cancel', processId: packet.readInt32BE(8), secretKey: packet.subarray(12) };
  }
  const [major, minor] = [packet.readUInt16BE(4), packet.readUInt16BE(6)];
  if (major !== 3) return { kind: 'unsupported', version: `${major}.${minor}` };
  return { kind: 'start-up', minor, parameters: readParameters(packet) };
}

/** Pairs of strings, and a zero byte at the end. */
function readParameters(packet: Buffer): Map<string, string> {
  const fields = packet.toString('utf8', 8).split('\0');
  const isComplete = packet.at(-1) === 0 && fields.at(-2) === '' && fields.length % 2 === 0;
  if (!isComplete) throw new Error('invalid startup packet layout: expected terminator as last byte');
  const parameters = new Map<string, string>();
  for (let i = 0; i + 3 < fields.length; i += 2) {
    const [name = '', value = ''] = [fields[i], fields[i + 1]];
    if (name === '' || parameters.has(name)) throw new Error('invalid startup packet layout: a name is empty or twice');
    parameters.set(name, value);
  }
  return parameters;
}
