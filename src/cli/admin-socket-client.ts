/** HTTP on the admin socket: sends requests of the operator's commands to the process that owns the data folder. */
import { chown, stat } from 'node:fs/promises';
import { type IncomingMessage, request as httpRequest } from 'node:http';
import { userInfo } from 'node:os';
import { text } from 'node:stream/consumers';
import { EngineError } from '../contract/errors.js';
import type { ErrorBody } from '../contract/wire/failure.js';
import { ACCOUNT_HEADER } from '../contract/wire/admin-socket.js';
import type { Finding } from '../contract/wire/findings.js';
import { hasCode, isMissing } from '../files.js';
import { linesOf } from './remote/user-files.js';

/** Nothing listens on the socket, so the request had no effect. */
export class NotListening extends Error {}

interface Watching {
  /** Aborts the request, and with it the work. */
  readonly signal: AbortSignal;
  readonly progress: (line: string) => void;
  /** Receives findings as they are made. */
  readonly onFinding?: (finding: Finding) => void;
}

export class AdminSocketClient {
  constructor(private readonly socket: string) {}

  /**
   * @param path below `/api/cdp/`
   * @throws EngineError from the service; NotListening; Error if the connection is lost before the response
   */
  async call<T>(method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, body?: object): Promise<T> {
    try {
      return JSON.parse(await text(await this.send(method, path, body))) as T;
    } catch (error) {
      // A read can be repeated with the next process.
      if (isLost(error) && method === 'GET') throw new NotListening();
      throw isLost(error) ? connectionLost(error) : error;
    }
  }

  /** Runs long work, which reports its progress line by line. @throws as `call`, and the reason of the signal */
  async callWithProgress<T>(path: string, body: object, { signal, progress, onFinding }: Watching): Promise<T> {
    try {
      for await (const line of linesOf(await this.send('POST', path, body, signal))) {
        const part = JSON.parse(line) as Partial<{
          progress: string;
          finding: Finding;
          done: T;
          error: ErrorBody;
        }>;
        if (part.progress !== undefined) progress(part.progress);
        if (part.finding !== undefined) onFinding?.(part.finding);
        if (part.error !== undefined) throw engineError(part.error);
        if (part.done !== undefined) return part.done;
      }
      throw connectionLost();
    } catch (error) {
      signal.throwIfAborted();
      throw isLost(error) ? connectionLost(error) : error;
    }
  }

  /** Gives a file that root has created to the user of the service. */
  async handOver(path: string): Promise<void> {
    const { uid, gid } = await stat(this.socket).catch((error: Error) => Promise.reject(this.connectionError(error)));
    if (process.getuid?.() === 0 && uid !== 0) await chown(path, uid, gid);
  }

  private async send(method: string, path: string, body?: object, signal?: AbortSignal): Promise<IncomingMessage> {
    const json = body === undefined ? undefined : JSON.stringify(body);
    const headers = {
      [ACCOUNT_HEADER]: encodeURIComponent(osUserName()),
      ...(json === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(json) }),
    };
    const options = { socketPath: this.socket, method, path: `/api/cdp/${path}`, headers, agent: false };
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const request = httpRequest({ ...options, ...(signal === undefined ? {} : { signal }) }, resolve);
      request.on('error', (error) => reject(this.connectionError(error)));
      request.end(json);
    });
    if ((response.statusCode ?? 0) >= 400) throw engineError(JSON.parse(await text(response)) as ErrorBody);
    return response;
  }

  private connectionError(error: Error): Error {
    if (isMissing(error) || hasCode(error, 'ECONNREFUSED')) return new NotListening();
    if (!hasCode(error, 'EACCES')) return error;
    return new Error(`${this.socket} cannot be opened. Run this as the user of the service, or as root`);
  }
}

/** The operating system's account that runs this command; its user ID if it has no name. */
function osUserName(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? '');
  }
}

const engineError = ({ error, message, hint, errors }: ErrorBody): EngineError =>
  new EngineError(error, message, { hint, errors });

/** The connection broke after the request had been sent. */
const isLost = (error: unknown): boolean => hasCode(error, 'ECONNRESET', 'EPIPE');

const connectionLost = (cause?: unknown): Error =>
  new Error('The service stopped before it responded. Before you retry, check whether the change was made', { cause });
