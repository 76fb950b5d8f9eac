/** Cancels the statement of one connection over another one (Postgres manual, Canceling Requests in Progress). */
import { connectTo } from './address.js';
import type { LoggedIn } from './handshake.js';
import { cancelMessage } from './messages.js';

/** If a cancel request takes longer, the server is considered unreachable. */
export const CANCEL_MS = 5_000;

/**
 * Never rejects. Only the statement's own outcome shows whether the cancellation worked.
 * @returns whether the request can have no more effect: Postgres closes the connection after it has signaled the
 * backend, and a signal that finds no statement is lost. After false, it may still end a later statement
 */
export function cancel({
  address,
  processId,
  secretKey,
}: Pick<LoggedIn, 'address' | 'processId' | 'secretKey'>): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connectTo(address);
    const timer = setTimeout(() => socket.destroy(), CANCEL_MS).unref();
    let isSent = false;
    let isOver = false;
    socket.on('connect', () => {
      isSent = true;
      // Only Postgres ends the connection: a proxy on the way might end it as soon as this side does.
      socket.write(cancelMessage(processId, secretKey));
    });
    socket.on('error', () => {});
    socket.on('end', () => (isOver = true));
    socket.on('close', () => {
      clearTimeout(timer);
      resolve(isOver || !isSent);
    });
    socket.resume();
  });
}
