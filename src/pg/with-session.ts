/** A session for the duration of some work. */
import type { LoginOptions } from './address.js';
import type { ConnectionLimits } from './connection.js';
import { Session } from './session.js';

/**
 * Runs `work` in a short-lived session.
 * @param signal aborted: closes the connection at once, even while it waits
 * @throws PostgresError, ConnectionLost; the signal's reason; what `work` throws
 */
export async function withSession<T>(
  options: LoginOptions & ConnectionLimits,
  work: (session: Session) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  signal?.throwIfAborted();
  let session: Session | undefined;
  const breakOff = () => session?.destroy(signal?.reason as Error);
  signal?.addEventListener('abort', breakOff);
  try {
    session = await Session.connect(options, signal);
    return await work(session);
  } catch (error) {
    throw signal?.aborted ? signal.reason : error;
  } finally {
    signal?.removeEventListener('abort', breakOff);
    await session?.close();
  }
}
