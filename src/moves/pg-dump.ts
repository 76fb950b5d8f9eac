/**
 * Reads a database's schema with pg_dump 18, a WebAssembly module from npm
 * (docs/decisions/0046-copying-between-servers.md). It runs in a thread and talks to the server over a connection of
 * the service.
 */
import { Worker } from 'node:worker_threads';
import { ConnectionLost, type LoggedIn, type LoginOptions, withSession } from '../pg/index.js';
import {
  AUTHENTICATION_OK,
  BACKEND,
  backendKeyData,
  FRONTEND,
  MessageScan,
  parameterStatus,
  READY_IDLE,
  TERMINATE,
} from '../pg/protocol.js';
import { ProgramFailed } from '../backup/logical/client-programs.js';

/** The data passed to the thread. */
export interface DumpTask {
  readonly args: string[];
  /** How many responses there have been. */
  readonly responses: Int32Array;
}

/** The built file, even if this file runs from `src/`: a thread cannot run TypeScript. */
const WORKER_FILE = new URL('../../dist/moves/pg-dump-worker.js', import.meta.url);

/**
 * @param login of a role that can read the whole database
 * @param args of pg_dump, without those for the server and the output
 * @returns the dump as SQL
 * @throws ProgramFailed with the message of pg_dump, ConnectionLost, PostgresError; the signal's reason
 */
export function pgDump(login: LoginOptions, args: string[], signal: AbortSignal): Promise<string> {
  const responses = new Int32Array(new SharedArrayBuffer(4));
  const work = async (loggedIn: LoggedIn): Promise<string> => {
    const thread = new Worker(WORKER_FILE, { execArgv: [], workerData: { args, responses } satisfies DumpTask });
    try {
      return await new Promise((resolve, reject) => {
        const respond = (bytes: Uint8Array) => {
          thread.postMessage(bytes);
          Atomics.add(responses, 0, 1);
          Atomics.notify(responses, 0);
        };
        const ask = conversation(loggedIn, respond);
        thread.on('message', (message: Uint8Array | string) =>
          typeof message === 'string' ? resolve(message) : ask(message),
        );
        thread.on('error', (error) => reject(new ProgramFailed(`pg_dump: ${wordsOf(error)}`)));
        loggedIn.socket.on('close', () => reject(new ConnectionLost('The connection to Postgres was lost')));
      });
    } finally {
      loggedIn.socket.end(TERMINATE);
      await thread.terminate();
    }
  };
  return withSession(login, (session) => work(session.handOver()), signal);
}

/** Extracts the error message from the output of pg_dump. */
const wordsOf = ({ message }: Error): string => /(?<=\berror: )[^]*/.exec(message)?.[0].trim() ?? message;

/**
 * Forwards pg_dump's messages to the server, and the server's responses to pg_dump, each response as a whole.
 * @param respond called once for each part that pg_dump sends
 */
function conversation(loggedIn: LoggedIn, respond: (bytes: Uint8Array) => void): (part: Uint8Array) => void {
  const { socket } = loggedIn;
  const [requests, responses] = [messages(), messages()];
  let parts: Buffer[] = [];
  loggedIn.read((bytes, end) => {
    responses.feed(bytes, end);
    parts.push(Buffer.from(bytes.subarray(0, end)));
    if (!responses.isBetween || responses.lastType !== BACKEND.readyForQuery) return;
    respond(Buffer.concat(parts));
    parts = [];
  });
  let isLoggingIn = true;
  return (part) => {
    if (isLoggingIn) {
      isLoggingIn = false;
      return respond(startupResponse(loggedIn));
    }
    requests.feed(Buffer.from(part.buffer, part.byteOffset, part.length));
    // pg_dump's Terminate must not end the connection.
    if (requests.lastType !== FRONTEND.terminate) socket.write(part);
    // The server does not answer an incomplete query.
    if (!requests.isBetween || requests.lastType !== FRONTEND.query) respond(Buffer.alloc(0));
  };
}

const messages = () => new MessageScan(new Set(), () => {});

/** Answers pg_dump's startup packet: the connection is already logged in. */
const startupResponse = ({ parameters, processId, secretKey }: LoggedIn): Buffer =>
  Buffer.concat([
    AUTHENTICATION_OK,
    ...Array.from(parameters, ([name, value]) => parameterStatus(name, value)),
    backendKeyData(processId, secretKey),
    READY_IDLE,
  ]);
