/**
 * The schema of a database by pg_dump 18, which npm brings as WebAssembly
 * (docs/decisions/0046-copying-between-servers.md). It runs in a thread of its own, and talks to the server on a
 * connection of ours.
 */
import { Worker } from 'node:worker_threads';
import { ConnectionLost, type LoggedIn, type LoginOptions, withSession } from '../../pg/index.js';
import {
  AUTHENTICATION_OK,
  BACKEND,
  backendKeyData,
  FRONTEND,
  MessageScan,
  parameterStatus,
  READY_IDLE,
  TERMINATE,
} from '../../pg/protocol.js';
import { ProgramFailed } from '../logical/client-programs.js';

/** What the thread gets. */
export interface DumpTask {
  readonly args: string[];
  /** 1 when an answer is there for it. */
  readonly answered: Int32Array;
}

/** The built file, from `src/` too: a thread cannot run TypeScript. */
const WORKER_FILE = new URL('../../../dist/backup/copy/pg-dump-worker.js', import.meta.url);

/**
 * @param login of a role that reads the whole database
 * @param args of pg_dump, without those that say where the server is and where the dump goes
 * @returns the dump as SQL
 * @throws ProgramFailed with the words of pg_dump, ConnectionLost, PostgresError; the signal's reason
 */
export function pgDump(login: LoginOptions, args: string[], signal: AbortSignal): Promise<string> {
  const answered = new Int32Array(new SharedArrayBuffer(4));
  const work = async (loggedIn: LoggedIn): Promise<string> => {
    const thread = new Worker(WORKER_FILE, { execArgv: [], workerData: { args, answered } satisfies DumpTask });
    try {
      return await new Promise((resolve, reject) => {
        const answer = (bytes: Uint8Array) => {
          thread.postMessage(bytes);
          Atomics.store(answered, 0, 1);
          Atomics.notify(answered, 0);
        };
        const ask = conversation(loggedIn, answer);
        thread.on('message', (said: Uint8Array | string) => (typeof said === 'string' ? resolve(said) : ask(said)));
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

/** Of all that pg_dump said. */
const wordsOf = ({ message }: Error): string => /(?<=\berror: )[^]*/.exec(message)?.[0].trim() ?? message;

/**
 * Hands on what pg_dump sends and what the server answers, a whole answer at a time.
 * @param answer is called once for each part that pg_dump sends
 */
function conversation(loggedIn: LoggedIn, answer: (bytes: Uint8Array) => void): (part: Uint8Array) => void {
  const { socket } = loggedIn;
  const [sent, received] = [messages(), messages()];
  let parts: Buffer[] = [];
  loggedIn.read((bytes, end) => {
    received.feed(bytes, end);
    parts.push(Buffer.from(bytes.subarray(0, end)));
    if (!received.isBetween || received.lastType !== BACKEND.readyForQuery) return;
    answer(Buffer.concat(parts));
    parts = [];
  });
  let isLoggingIn = true;
  return (part) => {
    if (isLoggingIn) {
      isLoggingIn = false;
      return answer(startupResponse(loggedIn));
    }
    sent.feed(Buffer.from(part.buffer, part.byteOffset, part.length));
    // The end of the connection, which is not pg_dump's.
    if (sent.lastType !== FRONTEND.terminate) socket.write(part);
    // The server says nothing to half a query.
    if (!sent.isBetween || sent.lastType !== FRONTEND.query) answer(Buffer.alloc(0));
  };
}

const messages = () => new MessageScan(new Set(), () => {});

/** To pg_dump's login: the connection is logged in already. */
const startupResponse = ({ parameters, processId, secretKey }: LoggedIn): Buffer =>
  Buffer.concat([
    AUTHENTICATION_OK,
    ...Array.from(parameters, ([name, value]) => parameterStatus(name, value)),
    backendKeyData(processId, secretKey),
    READY_IDLE,
  ]);
