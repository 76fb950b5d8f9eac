/**
 * Logging in is the driver's work: socket or TLS, SCRAM, start-up parameters. What comes out is the bare socket of a
 * session that is ready for its first query; `session.ts` speaks the protocol from there.
 */
import type { Socket } from 'node:net';
import pg from 'pg';
import type { LoginOptions } from '../server.js';
import { PostgresError } from '../errors.js';

export interface LoggedIn {
  socket: Socket;
  processId: number;
  secretKey: number;
}

/** The fields of the driver's client that its type declarations leave out. */
interface ClientInternals {
  connection: { stream: Socket };
  processID: number;
  secretKey: number;
}

/**
 * @throws PostgresError when the server refuses (28P01, 53300, 57P03 …), the socket's own error when it cannot be
 * reached.
 */
export async function login(options: LoginOptions): Promise<LoggedIn> {
  const client = new pg.Client(options);
  // Once logged in, the session owns the socket; the driver must not throw when it closes.
  client.on('error', () => {});
  try {
    await client.connect();
  } catch (error) {
    throw error instanceof pg.DatabaseError ? PostgresError.fromDriver(error) : error;
  }
  const { connection, processID, secretKey } = client as unknown as ClientInternals;
  connection.stream.removeAllListeners('data');
  return { socket: connection.stream, processId: processID, secretKey };
}
