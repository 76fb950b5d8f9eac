/** One call over HTTP: sent, timed, read, and repeated where a repeat can do no harm. */
import type { ErrorBody } from '../contract/wire/failure.js';
import { aborted, CdpError, type CdpErrorCode } from './error.js';

export interface ClientOptions {
  /** Address of the service, as `https://cdp.example`. */
  url: string;
  /** A token of the project: `cdp_…`, or a JWT of your identity provider. */
  token: string;
  /** In place of the global one. */
  fetch?: typeof fetch;
  /** Asked before each try for headers to send with it, such as a `traceparent`. */
  headers?: () => Record<string, string>;
  /** Repeats of one request before it counts as failed. Default 8, some 20 seconds in all. */
  maxRetries?: number;
  /** Milliseconds for one try, of a stream for its beginning. Default 100,000: the service itself gives up before. */
  timeoutMs?: number;
}

export interface Call {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  path: string;
  /** JSON. */
  body?: string;
  headers?: Record<string, string>;
  /** Whether doing it twice is the same as doing it once: a read, or an insert with an idempotency key. */
  repeatable: boolean;
  signal?: AbortSignal | undefined;
  onRetry?: () => void;
}

/** With these the service says that nothing was done, so any call can be repeated. */
const NOTHING_DONE: readonly CdpErrorCode[] = ['rate_limited', 'overloaded', 'table_busy', 'database_unavailable'];

/** With these it may have been done. */
const OUTCOME_OPEN: readonly CdpErrorCode[] = ['network_error', 'request_in_flight', 'outcome_unknown'];

/** What a proxy answers when it could not reach the service, or lost it. */
const GATEWAY_STATUSES: readonly number[] = [429, 502, 503, 504];

const BACKOFF_MS = 250;
const BACKOFF_MAX_MS = 8_000;
/** Whoever wants us to wait longer wants us to go away. */
const RETRY_AFTER_MAX_S = 60;

export class Transport {
  readonly #base: string;
  readonly #token: string;
  readonly #fetch: typeof fetch;
  readonly #headers: () => Record<string, string>;
  readonly #maxRetries: number;
  readonly #timeoutMs: number;

  /** @throws TypeError where the address is none, or the token is missing: an environment that lacks a variable */
  constructor({ url, token, fetch, headers, maxRetries = 8, timeoutMs = 100_000 }: ClientOptions) {
    if (!/^https?:\/\//i.test(url))
      throw new TypeError(`url: ${String(url)} is no address; one looks like http://127.0.0.1:8080`);
    if (typeof token !== 'string') throw new TypeError('token: there is none');
    this.#base = new URL(url).href.replace(/\/+$/, '');
    this.#token = token;
    // Browsers refuse a fetch that is called as the method of something else.
    this.#fetch = fetch ?? ((input, init) => globalThis.fetch(input, init));
    this.#headers = headers ?? (() => ({}));
    this.#maxRetries = maxRetries;
    this.#timeoutMs = timeoutMs;
  }

  /** @throws CdpError */
  async json<Answer>(call: Call): Promise<Answer> {
    return this.#repeat(call, async (response) => (await jsonOf(response)).value as Answer);
  }

  /**
   * The same, as its text.
   * @throws CdpError
   */
  async text(call: Call): Promise<string> {
    return this.#repeat(call, async (response) => (await jsonOf(response)).text);
  }

  /**
   * The answer with its body unread; from here on its reader heeds the signal.
   * @throws CdpError
   */
  async open(call: Call): Promise<Response> {
    return this.#repeat(call, (response) => Promise.resolve(response));
  }

  async #repeat<Result>(call: Call, read: (response: Response) => Promise<Result>): Promise<Result> {
    for (let retries = 0; ; retries++) {
      try {
        return await this.#attempt(call, read);
      } catch (error) {
        if (!(error instanceof CdpError) || retries >= this.#maxRetries || !mayRepeat(error, call)) throw error;
        await sleep(delayMs(error, retries), call.signal);
        call.onRetry?.();
      }
    }
  }

  async #attempt<Result>(call: Call, read: (response: Response) => Promise<Result>): Promise<Result> {
    const { method, path, body, headers, signal } = call;
    if (signal?.aborted) throw aborted(signal);
    const controller = new AbortController();
    const cancel = () => controller.abort();
    const timer = setTimeout(cancel, this.#timeoutMs);
    signal?.addEventListener('abort', cancel);
    try {
      const fetch = this.#fetch;
      const response = await fetch(this.#base + path, {
        method,
        ...(body === undefined ? {} : { body }),
        signal: controller.signal,
        headers: {
          ...this.#headers(),
          authorization: `Bearer ${this.#token}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
      });
      if (!response.ok) throw await refusal(response);
      return await read(response);
    } catch (thrown) {
      if (thrown instanceof CdpError) throw thrown;
      if (signal?.aborted) throw aborted(signal);
      throw networkError(controller.signal.aborted ? `No answer within ${this.#timeoutMs} ms` : 'No answer', thrown);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', cancel);
    }
  }
}

export function networkError(what: string, cause: unknown): CdpError {
  const why = reasonOf(cause);
  return new CdpError('network_error', what + (why === '' ? '' : `: ${why}`), { cause });
}

/** "fetch failed" says nothing; what lies behind it in Node does: "connect ECONNREFUSED 127.0.0.1:8080". */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return '';
  // In OpenSSL's words it is a line of numbers and files.
  if ('code' in error && error.code === 'ERR_SSL_WRONG_VERSION_NUMBER')
    return 'nothing speaks TLS there; is it http://?';
  // One error for each address of a host, without a message of its own.
  const [first] = error instanceof AggregateError ? (error.errors as unknown[]) : [];
  return reasonOf(error.cause) || reasonOf(first) || error.message.trim();
}

async function jsonOf(response: Response): Promise<{ value: unknown; text: string }> {
  const text = await response.text();
  try {
    return { value: JSON.parse(text) as unknown, text };
  } catch {
    throw unexpected(response);
  }
}

async function refusal(response: Response): Promise<CdpError> {
  const text = await response.text();
  try {
    return fromBody(JSON.parse(text) as ErrorBody, retryAfterOf(response)) ?? unexpected(response);
  } catch {
    return unexpected(response);
  }
}

/** Undefined where the body is not a failure of the service. */
export function fromBody(body: ErrorBody, retryAfter?: number): CdpError | undefined {
  if (body.success !== false || typeof body.error !== 'string') return undefined;
  return new CdpError(body.error as CdpErrorCode, body.message, {
    status: body.status,
    errors: body.errors as CdpError['errors'] | undefined,
    errorCount: body.error_count,
    hint: body.hint,
    postgres: body.postgres,
    requestId: body.request_id,
    retryAfter,
  });
}

function unexpected(response: Response): CdpError {
  return new CdpError('unexpected_answer', `The answer with status ${response.status} is not one of the service's`, {
    status: response.status,
    retryAfter: retryAfterOf(response),
  });
}

/** Seconds, or a date (RFC 9110, 10.2.3). */
function retryAfterOf(response: Response): number | undefined {
  const value = response.headers.get('retry-after');
  if (value === null) return undefined;
  const seconds = /^\d+$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1_000;
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}

function mayRepeat(error: CdpError, { repeatable }: Call): boolean {
  if ((error.retryAfter ?? 0) > RETRY_AFTER_MAX_S) return false;
  if (NOTHING_DONE.includes(error.code)) return true;
  if (!repeatable) return false;
  if (error.code === 'unexpected_answer') return GATEWAY_STATUSES.includes(error.status);
  return OUTCOME_OPEN.includes(error.code);
}

/** Exponential with full jitter, on top of what the service asks for, so that many callers do not come back at once. */
function delayMs({ retryAfter = 0 }: CdpError, retries: number): number {
  return retryAfter * 1_000 + Math.random() * Math.min(BACKOFF_MAX_MS, BACKOFF_MS * 2 ** retries);
}

function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      if (signal?.aborted) reject(aborted(signal));
      else resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener('abort', end);
    if (signal?.aborted) end();
  });
}
