/** Cancels what runs on one connection, over another one (Postgres manual 54.2.8). */
import { connectTo } from './address.js';
import type { LoggedIn } from './login.js';
import { cancelMessage } from './messages.js';

/** A cancel request that takes longer does not arrive. */
const CANCEL_MS = 500;

/** Only the statement's own outcome shows whether it worked. Never rejects. */
export function cancel({
  address,
  processId,
  secretKey,
}: Pick<LoggedIn, 'address' | 'processId' | 'secretKey'>): Promise<void> {
  return new Promise((resolve) => {
    const socket = connectTo(address);
    socket.setTimeout(CANCEL_MS, () => socket.destroy());
    socket.on('connect', () => socket.end(cancelMessage(processId, secretKey)));
    socket.on('error', () => {});
    socket.on('close', () => resolve());
    socket.resume();
  });
}
