/** A connection to Postgres on which the test decides when a message is passed on, even after its sender has died. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';

/** A message that stopped on the way. */
export interface HeldMessage {
  /** Lets it go on. @returns resolves when Postgres has done it; the service gets the response unless that is lost */
  pass(fate?: 'response is lost'): Promise<void>;
  /** It never comes. */
  drop(): void;
}

export interface HeldMessages {
  readonly address: string;
  /** Stops the nth message, from 1, that has the text in it. @returns resolves when it is there */
  hold(text: string, nth: number): Promise<HeldMessage>;
  close(): Promise<void>;
}

/** ReadyForQuery, which ends a response, up to the state of the transaction (Postgres manual, Message Formats). */
const READY = Buffer.from('Z\0\0\0\x05', 'latin1');

/** @param target the socket of Postgres */
export async function startHeldMessages(target: () => string): Promise<HeldMessages> {
  const awaited = new Set<{ text: string; left: number; arrived: (message: HeldMessage) => void }>();
  const server = createServer((near) => {
    const far = connect(target());
    let isHeld = false;
    let isLost = false;
    let isDone = () => {};
    near.on('error', () => {});
    far.on('error', () => {});
    near.on('data', (bytes) => {
      const one = [...awaited].find(({ text }) => bytes.includes(text));
      if (one === undefined || --one.left > 0) return void far.write(bytes);
      isHeld = true;
      awaited.delete(one);
      one.arrived({
        drop: () => void far.destroy(),
        pass: async (fate) => {
          isLost = fate === 'response is lost';
          const done = new Promise<void>((resolve) => (isDone = resolve));
          far.write(bytes);
          await done;
          isHeld = false;
          if (near.destroyed) far.end();
        },
      });
    });
    far.on('data', (bytes) => {
      if (!isLost && !near.destroyed) near.write(bytes);
      if (bytes.subarray(-6, -1).equals(READY)) isDone();
    });
    near.on('close', () => {
      if (!isHeld) far.end();
    });
    far.on('close', () => near.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    hold: (text, nth) => new Promise((arrived) => void awaited.add({ text, left: nth, arrived })),
    close: async () => {
      server.close();
      await once(server, 'close');
    },
  };
}
