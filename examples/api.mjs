/** All that the examples need to talk to the service: `fetch`, a base URL and a token. Feel free to copy it. */
import { setTimeout as sleep } from 'node:timers/promises';

/** The service refused; `response` is the body of the failure: `error`, `message`, `errors`, `hint`, … */
export class Refused extends Error {
  constructor(response) {
    super(`${response.error}: ${response.message}`);
    this.response = response;
  }
}

/** The response to a request that must be refused. */
export async function refusal(request) {
  try {
    await request;
  } catch (error) {
    if (error instanceof Refused) return error.response;
    throw error;
  }
  throw new Error('This request should have been refused');
}

/** @returns the operations of the API for one project */
export function connect(url, token) {
  async function send(method, path, body, headers = {}) {
    for (let attempt = 1; ; attempt++) {
      const response = await fetch(url + path, {
        method,
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
      });
      if (response.ok) return response;
      // Retry-After means that a retry is safe: nothing was changed, or the Idempotency-Key settles it.
      const seconds = Number(response.headers.get('retry-after'));
      if (seconds === 0 || attempt === 5) throw new Refused(await response.json());
      await response.body.cancel();
      await sleep(seconds * 1000);
    }
  }
  const call = async (...request) => (await send(...request)).json();

  return {
    createTable: (table) => call('POST', '/api/cdp/schema/table', table),
    readTable: async (table) => (await call('GET', `/api/cdp/schema/table/${table}`)).table,
    addColumn: (table, column) => call('POST', `/api/cdp/schema/table/${table}/column`, column),
    alterColumn: (table, column, change) => call('PUT', `/api/cdp/schema/table/${table}/column/${column}`, change),

    /** A missing table is not a failure, so that an example can be run again. */
    async dropTable(table) {
      await call('DELETE', `/api/cdp/schema/table/${table}`).catch((error) => {
        if (error.response?.error !== 'table_not_found') throw error;
      });
    },

    /** @param key Idempotency-Key: the same batch under the same key is stored once, however often it is sent */
    async insert(table, records, { key, query = '' } = {}) {
      const headers = key === undefined ? {} : { 'idempotency-key': key };
      const response = await send('POST', `/api/cdp/data/${table}${query}`, records, headers);
      return { ...(await response.json()), replayed: response.headers.get('idempotency-replayed') === 'true' };
    },

    /** @returns the whole response: type, rows, row_count, columns, … */
    sql: (sql, params) => call('POST', '/api/cdp/sql', { sql, params }),

    rows: async (sql, params) => (await call('POST', '/api/cdp/sql', { sql, params })).rows,

    /**
     * The rows one by one, without a limit to their number: NDJSON, whose last line says that the result is complete.
     */
    async *stream(sql) {
      const response = await send('POST', '/api/cdp/sql', { sql }, { accept: 'application/x-ndjson' });
      let line;
      for await (const next of lines(response.body)) {
        if (line !== undefined) yield JSON.parse(line);
        line = next;
      }
      const end = JSON.parse(line);
      if (end.done !== true) throw new Refused(end.error);
    },

    /** A whole result as CSV, its first line the names of the columns. */
    csv: async (sql) => (await send('POST', '/api/cdp/sql', { sql }, { accept: 'text/csv' })).text(),
  };
}

async function* lines(body) {
  let rest = '';
  for await (const text of body.pipeThrough(new TextDecoderStream())) {
    const parts = (rest + text).split('\n');
    rest = parts.pop();
    yield* parts;
  }
}

/** Runs `work` for every item, `lanes` of them at a time. */
export async function inFlight(lanes, items, work) {
  const queue = items.entries();
  const lane = async () => {
    for (const [i, item] of queue) await work(item, i);
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}

/** Batches of at most 250 records, the limit of one insert. */
export function batches(records) {
  return Array.from({ length: Math.ceil(records.length / 250) }, (_, i) => records.slice(i * 250, (i + 1) * 250));
}
