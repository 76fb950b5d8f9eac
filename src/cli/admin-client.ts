/** Asks whoever owns the data folder, over its admin socket. */
import { chown, stat } from 'node:fs/promises';
import { type IncomingMessage, request as httpRequest } from 'node:http';
import { text } from 'node:stream/consumers';
import { userInfo } from 'node:os';
import { EngineError, type ErrorCode } from '../contract/errors.js';
import type { ErrorBody } from '../contract/wire/failure.js';
import { ACCOUNT_HEADER } from '../contract/wire/operator.js';
import { hasCode, isMissing } from '../files.js';

/** Nobody listens at the socket, and nothing was done. */
export class NobodyListens extends Error {}

interface Watching {
  /** Aborted: the connection ends, and with it the work. */
  readonly signal: AbortSignal;
  readonly progress: (line: string) => void;
}

/** A line of an answer that comes as the work goes on. */
type Line<T> = Partial<{ progress: string; done: T; error: ErrorBody }>;

export class AdminClient {
  readonly #socket: string;

  constructor(socket: string) {
    this.#socket = socket;
  }

  /**
   * @param path in `/api/cdp/`
   * @throws EngineError as the service refuses it; NobodyListens; Error where the answer is lost
   */
  async call<T>(method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, body?: object): Promise<T> {
    try {
      const response = await this.#send(method, path, body);
      const answer = JSON.parse(await text(response)) as T | ErrorBody;
      if ((response.statusCode ?? 0) >= 400) throw failureIn(answer as ErrorBody);
      return answer as T;
    } catch (error) {
      // What only looks can look again, at whoever comes next.
      if (isLost(error) && method === 'GET') throw new NobodyListens();
      throw isLost(error) ? lost(error) : error;
    }
  }

  /** The result of work that takes long. @throws as `call`, and the reason of the signal */
  async watch<T>(path: string, body: object, { signal, progress }: Watching): Promise<T> {
    try {
      const response = await this.#send('POST', path, body, signal);
      if ((response.statusCode ?? 0) >= 400) throw failureIn(JSON.parse(await text(response)) as ErrorBody);
      for await (const line of linesOf<T>(response)) {
        if (line.progress !== undefined) progress(line.progress);
        if (line.error !== undefined) throw failureIn(line.error);
        if (line.done !== undefined) return line.done;
      }
      throw lost();
    } catch (error) {
      signal.throwIfAborted();
      throw isLost(error) ? lost(error) : error;
    }
  }

  /** What a command of root has made, for a service that runs as another user. */
  async handOver(path: string): Promise<void> {
    const { uid, gid } = await stat(this.#socket).catch((error: Error) => Promise.reject(this.#refusal(error)));
    if (process.getuid?.() === 0 && uid !== 0) await chown(path, uid, gid);
  }

  #send(method: string, path: string, body?: object, signal?: AbortSignal): Promise<IncomingMessage> {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const headers = {
      [ACCOUNT_HEADER]: encodeURIComponent(account()),
      ...(text === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
    };
    return new Promise((resolve, reject) => {
      const options = { socketPath: this.#socket, method, path: `/api/cdp/${path}`, headers, agent: false };
      const request = httpRequest({ ...options, ...(signal === undefined ? {} : { signal }) }, resolve);
      request.on('error', (error) => reject(this.#refusal(error)));
      request.end(text);
    });
  }

  #refusal(error: Error): Error {
    if (isMissing(error) || hasCode(error, 'ECONNREFUSED')) return new NobodyListens();
    if (!hasCode(error, 'EACCES')) return error;
    return new Error(`${this.#socket} cannot be opened. Run this as the user of the service, or as root`);
  }
}

/** Who runs this command, as the operating system calls the account; its number where it has no name. */
function account(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? '');
  }
}

async function* linesOf<T>(response: IncomingMessage): AsyncGenerator<Line<T>> {
  let rest = '';
  for await (const part of response.setEncoding('utf8')) {
    const lines = (rest + String(part)).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) yield JSON.parse(line) as Line<T>;
  }
}

const failureIn = ({ error, message, hint }: ErrorBody): EngineError =>
  new EngineError(error as ErrorCode, message, hint === undefined ? {} : { hint });

/** The connection broke after the request had gone out. */
const isLost = (error: unknown): boolean => hasCode(error, 'ECONNRESET', 'EPIPE');

const lost = (cause?: unknown): Error =>
  new Error('The service ended before it answered. Look whether it was done, and try again', { cause });
