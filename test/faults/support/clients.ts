/**
 * Many clients in a closed loop over real HTTP that record every response: some with keys, some without, with batches of
 * any size.
 */
import { Agent, type IncomingMessage, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { LIMITS } from '../../../src/contract/limits.js';
import { type Batch, type Ledger, REPLAY, type Reply, requestOf } from './ledger.js';

export interface ClientOptions {
  /** Where to send the next request: services come and go. */
  readonly url: () => string;
  readonly token: string;
  readonly ledger: Ledger;
  readonly count: number;
  /** Opens the names of their batches, so that several crowds can write into one table. */
  readonly name?: string;
  /** Which batches carry a key; default: every other. */
  readonly keyed?: (n: number) => boolean;
  /** A response that takes longer is a hang; default a minute. */
  readonly patienceMs?: number;
  /** Between two requests of one client; by default short, so that what is tested next to it gets a processor, too. */
  readonly pauseMs?: number;
}

export interface Clients {
  /** Ends the loops; batches with a key are first repeated until they are settled, for a minute at most. */
  stop(): Promise<void>;
}

/** Responses after which a request with a key is to be repeated. */
const REPEATABLE = new Set([0, 408, 409, 429, 503, 504]);

/** Sizes in turn: some share a COPY, some have one of their own, some go past it because they want their ids. */
const SIZES = [1, 3, 25, 26, 8, 250, 2, 60];

const SETTLE_MS = 60_000;

export function startClients(options: ClientOptions): Clients {
  const { url, token, ledger, count, name = 'c', keyed = (n) => n % 2 === 0, patienceMs, pauseMs = 40 } = options;
  // Each keeps its connection: beyond 256 the agent would close them and open others.
  const agent = new Agent({ keepAlive: true, maxFreeSockets: count });
  let stopping: number | null = null;

  const settle = async (batch: Batch): Promise<void> => {
    for (;;) {
      const reply = await sendBatch(url(), token, batch, { agent, patienceMs });
      batch.replies.push(reply);
      // As a careful client would: not at once again where the service is away or has no room.
      if (REPEATABLE.has(reply.status)) await sleep(20 + Math.random() * 60);
      if (batch.key === null || !REPEATABLE.has(reply.status)) return;
      if (stopping !== null && Date.now() - stopping > SETTLE_MS) return;
    }
  };
  const loop = async (client: number): Promise<void> => {
    for (let n = client; stopping === null; n++) {
      const key = keyed(n) ? `${name}${client}-${n}` : null;
      const size = SIZES[(n * 5 + client) % SIZES.length] as number;
      await settle(ledger.add(`${name}${client}-${n}`, size, key, moveSettings(n, key, size)));
      if (pauseMs > 0) await sleep(pauseMs);
    }
  };
  const loops = Array.from({ length: count }, (_, client) => loop(client));
  return {
    stop: async () => {
      stopping ??= Date.now();
      await Promise.all(loops);
      agent.destroy();
    },
  };
}

const moveSettings = (n: number, key: string | null, size: number): Batch['way'] => {
  if (key === null && n % 9 === 1) return 'sql';
  if (n % 5 === 0) return 'upsert';
  // Its bad record needs room.
  if (n % 5 === 3 && size < LIMITS.recordsPerBatch) return 'quarantine';
  return n % 7 === 0 ? 'ids' : 'batch';
};

export interface Replays {
  /** @returns how many records left the quarantine, as far as the responses say, and replays without a response */
  stop(): Promise<{ replayed: number; open: number }>;
}

/** Replays what is in the quarantine, again and again. */
export function startReplays({ url, token }: Pick<ClientOptions, 'url' | 'token'>, count: number): Replays {
  let isOver = false;
  const outcome = { replayed: 0, open: 0 };
  const loop = async (): Promise<void> => {
    while (!isOver) {
      const { status, code, rows = 0 } = await send(`${url()}/api/cdp/quarantine/replay`, token, REPLAY, null);
      if (status === 200) outcome.replayed += rows;
      else if (status === 0 && code !== 'ECONNREFUSED') outcome.open++;
      if (status === 0 || rows === 0) await sleep(20);
    }
  };
  const loops = Promise.all(Array.from({ length: count }, loop));
  return {
    stop: async () => {
      isOver = true;
      await loops;
      return outcome;
    },
  };
}

export interface SendOptions {
  readonly agent?: Agent;
  readonly patienceMs?: number | undefined;
  readonly method?: string;
}

/** One attempt at a batch. */
export async function sendBatch(url: string, token: string, batch: Batch, options: SendOptions = {}): Promise<Reply> {
  const { method, path, body } = requestOf(batch);
  return send(url + path, token, body, batch.key, { ...options, method });
}

/** A request with JSON, and whatever becomes of it. */
export function send(
  url: string,
  token: string,
  body: string,
  key: string | null,
  { agent, patienceMs = 60_000, method = 'POST' }: SendOptions = {},
): Promise<Reply> {
  const started = performance.now();
  return new Promise((resolve) => {
    const end = (reply: Omit<Reply, 'ms' | 'at'>): void => {
      clearTimeout(timer);
      resolve({ ...reply, ms: performance.now() - started, at: Date.now() });
    };
    const broke = (code: string): void => end({ status: 0, code, retryAfter: null });
    const call = request(url, {
      method,
      ...(agent === undefined ? {} : { agent }),
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        ...(key === null ? {} : { 'idempotency-key': key }),
      },
    });
    const timer = setTimeout(() => {
      broke('hung');
      call.destroy();
    }, patienceMs);
    call.on('error', (error: NodeJS.ErrnoException) => broke(error.code ?? error.message));
    call.on('response', (response: IncomingMessage) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', (error: NodeJS.ErrnoException) => broke(error.code ?? error.message));
      response.on('end', () => end(replyOf(response, Buffer.concat(chunks).toString())));
    });
    call.end(body);
  });
}

function replyOf(response: IncomingMessage, text: string): Omit<Reply, 'ms' | 'at'> {
  const status = response.statusCode ?? 0;
  const body = parsed(text);
  // A response that is cut off says nothing.
  if (body === null) return { status: 0, code: 'cut', retryAfter: null };
  return {
    status,
    code: typeof body.error === 'string' ? body.error : String(status),
    retryAfter: response.headers['retry-after'] ?? null,
    ...rowsOf(body),
    ...(body.ids === undefined ? {} : { ids: body.ids as string[] }),
    replayed: response.headers['idempotency-replayed'] === 'true',
  };
}

/** `inserted_rows` of a batch, `row_count` of a statement. */
function rowsOf({ inserted_rows: inserted, row_count: affected }: Record<string, unknown>): { rows?: number } {
  const rows = inserted ?? affected;
  return typeof rows === 'number' ? { rows } : {};
}

function parsed(text: string): Record<string, unknown> | null {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return null;
  }
}
