/** A Unix socket in front of Postgres's own that passes cancel requests on only when the test says so. */
import { once } from 'node:events';
import { chmodSync, rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { makeFolder } from './folder.js';
import type { TestServer } from './postgres.js';

export interface HeldCancels {
  /** The server, reached through here. */
  readonly server: TestServer;
  /** Cancel requests from now on stop here. */
  hold(): void;
  /** The number of those that have stopped. */
  readonly held: number;
  /** Passes them on, and later ones at once. */
  release(): void;
  /** Whether this text has passed on its way to Postgres. */
  hasPassed(text: string): boolean;
  close(): Promise<void>;
}

/** The code of a CancelRequest, after its length (Postgres manual, Message Formats). */
const CANCEL = 80877102;

export async function startHeldCancels(target: TestServer): Promise<HeldCancels> {
  const folder = makeFolder('cdp-held-');
  chmodSync(folder, 0o711);
  const { host, port } = target.connection;
  const passed: Buffer[] = [];
  const waiting: (() => void)[] = [];
  const sockets = new Set<Socket>();
  let isHolding = false;
  const proxy = createServer((near) => {
    const far = connect(join(host, `.s.PGSQL.${port}`));
    for (const socket of [near, far]) sockets.add(socket.on('error', () => {}));
    near.once('data', (first: Buffer) => {
      const go = () => {
        far.write(first);
        near.on('data', (bytes: Buffer) => passed.push(bytes)).pipe(far);
        near.resume();
      };
      if (!isHolding || first.readInt32BE(4) !== CANCEL) return go();
      near.pause();
      waiting.push(go);
    });
    far.pipe(near);
    near.on('close', () => far.destroy());
  });
  proxy.listen(join(folder, `.s.PGSQL.${port}`));
  await once(proxy, 'listening');
  return {
    server: { ...target, connection: { ...target.connection, host: folder } },
    hold: () => void (isHolding = true),
    get held() {
      return waiting.length;
    },
    release: () => {
      isHolding = false;
      for (const go of waiting.splice(0)) go();
    },
    hasPassed: (text) => Buffer.concat(passed).includes(text),
    close: async () => {
      for (const socket of sockets) socket.destroy();
      proxy.close();
      await once(proxy, 'close');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
