/**
 * Frees memory outside V8's heap at once. V8 counts what was taken there since its last full collection as if the heap had
 * grown by it, whether or not it is garbage by now: where each body brings some, a full collection follows every few
 * hundred bodies, and takes a third of the service's time.
 */
import { MessageChannel } from 'node:worker_threads';

/** What is transferred to a port that is closed has no owner any more. */
const nowhere = new MessageChannel().port1;
nowhere.close();

/** Less than this is not worth the call. */
export const MIN_DISCARDED_BYTES = 4 * 1024;

/** Whoever still holds the buffer finds it empty. One that is cut from memory of others is left alone. */
export function discard({ length, buffer }: Buffer): void {
  if (length < MIN_DISCARDED_BYTES || length < buffer.byteLength || !(buffer instanceof ArrayBuffer)) return;
  nowhere.postMessage(null, [buffer]);
}
