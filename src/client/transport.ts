/** Sends one HTTP request with a time limit, and retries it if that is safe. */
import type { ErrorBody } from '../contract/wire/failure.js';
import { unlessAborted } from './concurrency.js';
import { aborted, CdpError, type CdpErrorCode } from './error.js';
import { checkOptions, type Names } from './options.js';

export interface ClientOptions {
  /** The URL of the service, such as `https://cdp.example`. */
  url: string;
  /** A token of the project: `cdp_…`, or a JWT of your identity provider. */
  token: string;
  /** Default: the global one. */
  fetch?: typeof fetch;
  /** Called before each attempt for additional headers, such as `traceparent`. */
  headers?: () => Record<string, string>;
  /** Retries before a request fails. Default 8, about 20 seconds in total. */
  maxRetries?: number;
  /**
   * Milliseconds for one attempt; for a stream, until it begins. Default 100,000, longer than the service itself takes.
   */
  timeoutMs?: number;
}

const CLIENT_NAMES: Names<ClientOptions> = {
  url: true,
  token: true,
  fetch: true,
  headers: true,
  maxRetries: true,
  timeoutMs: true,
};

/** A timer with a longer delay fires at once. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

export interface ApiCall {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  path: string;
  /** JSON text. */
  body?: string;
  headers?: Record<string, string>;
  /** Whether a second execution changes nothing: a read, or an insert with an idempotency key. */
  idempotent: boolean;
  signal?: AbortSignal | undefined;
  onRetry?: (() => void) | undefined;
}

type Body = NonNullable<RequestInit['body']>;

/** A request whose body may be written while its response is read. */
export interface Exchange {
  path: string;
  headers: Record<string, string>;
  body: Body;
  signal: AbortSignal | undefined;
}

/** The service has done nothing, so any call can be retried. */
const NOTHING_DONE: readonly CdpErrorCode[] = [
  'rate_limited',
  'overloaded',
  'table_busy',
  'database_unavailable',
  'disk_full',
];

/** The service may have executed the request, so only an idempotent call can be retried. */
const OUTCOME_UNKNOWN: readonly CdpErrorCode[] = ['network_error', 'request_in_flight', 'outcome_unknown'];

/** Responses of a proxy that could not reach the service, or lost its connection. */
const GATEWAY_STATUSES: readonly number[] = [429, 502, 503, 504];

const BACKOFF_MS = 250;
const BACKOFF_MAX_MS = 8_000;
/** If the service asks for a longer wait, the call fails. */
const RETRY_AFTER_MAX_S = 60;

export class Transport {
  readonly #base: string;
  readonly #token: string;
  readonly #fetch: typeof fetch;
  readonly #headers: () => Record<string, string>;
  readonly #maxRetries: number;
  /** The time limit of one attempt. */
  readonly timeoutMs: number;
  /** The position of the last write, if its server has replicas. A bounded read that sends it sees the write. */
  #position = '';

  /**
   * @throws TypeError if the URL or another option is invalid, or the token is missing, for instance because an
   * environment variable is not set
   */
  constructor(options: ClientOptions) {
    checkOptions(options, CLIENT_NAMES, 'CdpClient');
    const { url, token, fetch, headers, maxRetries = 8, timeoutMs = 100_000 } = options;
    if (!/^https?:\/\//i.test(url))
      throw new TypeError(`url must be a URL such as http://127.0.0.1:8080, not ${String(url)}`);
    if (typeof token !== 'string' || token.trim() === '') throw new TypeError('token is missing');
    // fetch would refuse it too, and show it.
    if (!/^[!-~]+$/.test(token)) throw new TypeError('token: it has spaces or characters that a token never has');
    for (const [name, value] of Object.entries({ fetch, headers })) {
      if (value !== undefined && typeof value !== 'function') throw new TypeError(`${name} must be a function`);
    }
    if (!(typeof maxRetries === 'number' && maxRetries >= 0))
      throw new TypeError('maxRetries: expected a number, 0 for none');
    if (!(typeof timeoutMs === 'number' && timeoutMs > 0 && timeoutMs <= MAX_TIMEOUT_MS))
      throw new TypeError(`timeoutMs: expected 1 to ${MAX_TIMEOUT_MS} milliseconds`);
    this.#base = new URL(url).href.replace(/\/+$/, '');
    this.#token = token;
    // Browsers reject fetch if it is called as a method of another object.
    this.#fetch = fetch ?? ((input, init) => globalThis.fetch(input, init));
    this.#headers = headers ?? (() => ({}));
    this.#maxRetries = maxRetries;
    this.timeoutMs = timeoutMs;
  }

  /**
   * Returns the JSON value of the response.
   * @throws CdpError
   */
  json<Result>(call: ApiCall): Promise<Result> {
    return this.#send(call, async (response) => (await readJson(response)).value as Result);
  }

  /**
   * Returns the JSON text of the response.
   * @throws CdpError
   */
  text(call: ApiCall): Promise<string> {
    return this.#send(call, async (response) => (await readJson(response)).text);
  }

  /**
   * Returns the response before its body is read. The reader of the body must observe the signal.
   * @throws CdpError
   */
  open(call: ApiCall): Promise<Response> {
    return this.#send(call, (response) => Promise.resolve(response));
  }

  /**
   * Posts a body of any size, once. The time limit is one without any progress, which renews the deadline.
   * @throws CdpError
   */
  async exchange<Result>(
    { path, headers, body, signal }: Exchange,
    read: (response: Response) => Promise<Result>,
    deadline: Deadline,
  ): Promise<Result> {
    const call = { method: 'POST', path, headers, idempotent: true, signal } as const;
    return this.#fetched(call, { body, duplex: 'half' }, read, deadline);
  }

  /**
   * Waits before a call is repeated.
   * @param retries those without any progress
   * @throws CdpError the error, if it may not be repeated; aborted
   */
  async beforeRetry(error: unknown, retries: number, call: Pick<ApiCall, 'idempotent' | 'signal' | 'onRetry'>) {
    if (!(error instanceof CdpError) || retries >= this.#maxRetries || !mayRetry(error, call)) throw error;
    await sleep(delayMs(error, retries), call.signal);
    call.onRetry?.();
  }

  async #send<Result>(call: ApiCall, read: (response: Response) => Promise<Result>): Promise<Result> {
    for (let retries = 0; ; retries++) {
      try {
        return await this.#attempt(call, read);
      } catch (error) {
        await this.beforeRetry(error, retries, call);
      }
    }
  }

  #attempt<Result>(call: ApiCall, read: (response: Response) => Promise<Result>): Promise<Result> {
    const { body, headers } = call;
    if (body === undefined) return this.#fetched(call, {}, read);
    return this.#fetched({ ...call, headers: { 'content-type': 'application/json', ...headers } }, { body }, read);
  }

  async #fetched<Result>(
    { method, path, headers, signal }: Omit<ApiCall, 'body'>,
    sent: { body?: Body; duplex?: 'half' },
    read: (response: Response) => Promise<Result>,
    deadline = new Deadline(),
  ): Promise<Result> {
    if (signal?.aborted) throw aborted(signal);
    const controller = new AbortController();
    const cancel = () => controller.abort();
    deadline.start(cancel, this.timeoutMs);
    signal?.addEventListener('abort', cancel);
    try {
      const fetch = this.#fetch;
      const response = await fetch(this.#base + path, {
        method,
        ...sent,
        signal: controller.signal,
        headers: {
          ...this.#headers(),
          authorization: `Bearer ${this.#token}`,
          ...(this.#position === '' ? {} : { 'x-consistency': this.#position }),
          ...headers,
        },
      });
      if (!response.ok) throw await errorIn(response);
      this.#position = later(this.#position, response.headers.get('x-consistency') ?? '');
      return await read(response);
    } catch (thrown) {
      if (thrown instanceof CdpError) throw thrown;
      if (signal?.aborted) throw aborted(signal);
      if (controller.signal.aborted) throw networkError(`No response within ${this.timeoutMs} ms`, thrown);
      throw networkError(`No response${this.#corsHint()}`, thrown);
    } finally {
      deadline.end();
      signal?.removeEventListener('abort', cancel);
    }
  }

  /** Browsers do not tell a page why a request to another origin failed. */
  #corsHint(): string {
    const { location } = globalThis as { location?: { origin: string } };
    if (location === undefined || location.origin === new URL(this.#base).origin) return '';
    return ` (if the service is running, its setting cors-origins must allow ${location.origin})`;
  }
}

/** The time limit of a request. */
export class Deadline {
  #timer: ReturnType<typeof setTimeout> | undefined;
  #restart = () => {};

  start(onEnd: () => void, ms: number): void {
    this.#restart = () => {
      this.clear();
      this.#timer = setTimeout(onEnd, ms);
    };
    this.#restart();
  }

  /** Something has happened, so the time begins again. */
  renew(): void {
    this.#restart();
  }

  /** Stops the time, for example while the caller is awaited. */
  clear(): void {
    clearTimeout(this.#timer);
  }

  end(): void {
    this.clear();
    this.#restart = () => {};
  }
}

/** Positions of one server are equal up to their last dot, and sort as text. */
const later = (current: string, next: string): string =>
  next === '' || (next < current && timelineOf(next) === timelineOf(current)) ? current : next;

const timelineOf = (position: string): string => position.slice(0, position.lastIndexOf('.'));

export function networkError(what: string, cause: unknown): CdpError {
  const why = reasonOf(cause);
  return new CdpError('network_error', what + (why === '' ? '' : `: ${why}`), { cause });
}

/** Node's "fetch failed" says nothing; the cause does: "connect ECONNREFUSED 127.0.0.1:8080". */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return '';
  // OpenSSL's own message is a line of numbers and file names.
  if ('code' in error && error.code === 'ERR_SSL_WRONG_VERSION_NUMBER')
    return 'the server does not use TLS; should the URL start with http://?';
  // An AggregateError contains one error per address of a host, and no message.
  const [first] = error instanceof AggregateError ? (error.errors as unknown[]) : [];
  return reasonOf(error.cause) || reasonOf(first) || error.message.trim();
}

async function readJson(response: Response): Promise<{ value: unknown; text: string }> {
  const text = await response.text();
  try {
    return { value: JSON.parse(text) as unknown, text };
  } catch {
    throw unexpected(response);
  }
}

async function errorIn(response: Response): Promise<CdpError> {
  const { value } = await readJson(response);
  return fromBody(value as ErrorBody | null, retryAfterOf(response)) ?? unexpected(response);
}

/** Returns undefined if the body is not an error of the service. */
export function fromBody(body: ErrorBody | null, retryAfter?: number): CdpError | undefined {
  if (body?.success !== false || typeof body.error !== 'string') return undefined;
  const { stored_bytes, stored_rows = body.accepted_rows } = body;
  return new CdpError(body.error, body.message, {
    ...(stored_rows === undefined || stored_bytes === undefined
      ? {}
      : { inserted: stored_rows, stored: { rows: stored_rows, bytes: stored_bytes } }),
    status: body.status,
    errors: body.errors as CdpError['errors'] | undefined,
    errorCount: body.error_count,
    hint: body.hint,
    rows: body.rows,
    ids: body.ids,
    values: body.values,
    postgres: body.postgres,
    requestId: body.request_id,
    retryAfter,
  });
}

function unexpected(response: Response): CdpError {
  return new CdpError('unexpected_answer', `The response with status ${response.status} is not from the service`, {
    status: response.status,
    retryAfter: retryAfterOf(response),
  });
}

/** Parses seconds or a date (RFC 9110, 10.2.3). */
function retryAfterOf(response: Response): number | undefined {
  const value = response.headers.get('retry-after');
  if (value === null) return undefined;
  const seconds = /^\d+$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1_000;
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}

function mayRetry(error: CdpError, { idempotent }: Pick<ApiCall, 'idempotent'>): boolean {
  if ((error.retryAfter ?? 0) > RETRY_AFTER_MAX_S) return false;
  if (NOTHING_DONE.includes(error.code)) return true;
  if (!idempotent) return false;
  if (error.code === 'unexpected_answer') return GATEWAY_STATUSES.includes(error.status);
  return OUTCOME_UNKNOWN.includes(error.code);
}

/**
 * `Retry-After` plus an exponential backoff with full jitter, so that many clients do not return at the same moment.
 */
const delayMs = ({ retryAfter = 0 }: CdpError, retries: number): number =>
  retryAfter * 1_000 + Math.random() * Math.min(BACKOFF_MAX_MS, BACKOFF_MS * 2 ** retries);

/** @throws CdpError aborted */
async function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const elapsed = new Promise<void>((resolve) => (timer = setTimeout(resolve, ms)));
  await unlessAborted(signal, elapsed);
  clearTimeout(timer);
  if (signal?.aborted) throw aborted(signal);
}
