/** Cancels the statement of one connection over another one (Postgres manual 54.2.8). */
import { connectTo } from './address.js';
import type { LoggedIn } from './login.js';
import { cancelMessage } from './messages.js';

/** If a cancel request takes longer, the server is considered unreachable. */
const CANCEL_MS = 500;

/** Never rejects. Only the statement's own outcome shows whether the cancellation worked. */
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
