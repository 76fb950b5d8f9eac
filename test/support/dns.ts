/** A DNS server on loopback, which this process asks from then on: it knows the names that a test gives it. */
import { createSocket } from 'node:dgram';
import { getServers, setServers } from 'node:dns';
import { once } from 'node:events';

const TYPES = new Map([
  [1, 4],
  [28, 6],
]);

export interface Dns {
  /** IPv4 addresses, or IPv6 ones as eight groups. Others do not exist; null: no answer comes. */
  readonly names: Map<string, readonly string[] | null>;
  close(): Promise<void>;
}

export async function startDns(): Promise<Dns> {
  const names: Dns['names'] = new Map();
  const socket = createSocket('udp4');
  socket.on('message', (query, { port, address }) => {
    const { name, type, end } = question(query);
    const known = names.get(name);
    if (known === null) return;
    const family = TYPES.get(type);
    const answers = (known ?? [])
      .filter((text) => (text.includes(':') ? 6 : 4) === family)
      .map((text) => answer(type, text));
    const head = Buffer.from(query.subarray(0, 12));
    // A response; NXDOMAIN where there is no such name.
    head.writeUInt16BE(known === undefined ? 0x8183 : 0x8180, 2);
    head.writeUInt16BE(answers.length, 6);
    head.fill(0, 8);
    socket.send(Buffer.concat([head, query.subarray(12, end), ...answers]), port, address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  const before = getServers();
  setServers([`127.0.0.1:${socket.address().port}`]);
  return {
    names,
    close: async () => {
      setServers(before);
      await new Promise<void>((resolve) => socket.close(() => resolve()));
    },
  };
}

function question(query: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.').toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 };
}

/** It names the question by its place, and is valid for no time. */
function answer(type: number, text: string): Buffer {
  const groups = text.split(':').map((group) => parseInt(group, 16));
  const data =
    type === 1 ? Buffer.from(text.split('.').map(Number)) : Buffer.from(new Uint16Array(groups).buffer).swap16();
  const head = Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 0, 0, data.length]);
  return Buffer.concat([head, data]);
}
