/**
 * Asks questions as a project through the API, and as the superuser in the neighbor's own database to prove that the
 * probes find what exists.
 */
import pg from 'pg';
import { rpc } from '../support/mcp.js';
import type { TestResponse, TestProject, TestService } from '../support/service.js';

/** Runs a statement and answers everything that comes back, rows or error, as one text. */
export type Ask = (sql: string, params?: readonly unknown[]) => Promise<string>;

/** How often a question is asked that met the lock of another, which the service answers with 503 `table_busy`. */
const TRIES = 5;

/**
 * As a project with one of its tokens. A response that was cut off would prove nothing, so that is an error. A question
 * about every object at once takes locks on all of them, in any order, and may so be the one that a deadlock ends.
 * @param accept a media type of free SQL; by default JSON
 */
export function asProject(project: TestProject, token: string, accept = 'application/json'): Ask {
  return asking((sql, params) =>
    project.call('POST', '/api/cdp/sql', {
      token,
      headers: { accept },
      // Some functions write whole schemas as XML, which takes long on a busy machine.
      body: { sql, params, timeout_ms: 60_000, ...(accept === 'application/json' ? { max_rows: 100_000 } : {}) },
    }),
  );
}

/** The same as the driver of Neon. */
export const asNeonDriver = (project: TestProject, token: string): Ask =>
  asking((query, params) =>
    project.call('POST', '/sql', {
      token: null,
      headers: {
        'neon-connection-string': `postgresql://writer:${token}@db.example/${project.name}`,
        'neon-raw-text-output': 'true',
        'neon-array-mode': 'true',
      },
      body: { query, params },
    }),
  );

/** As an agent, by a tool that runs SQL. What does not fit into its response is cut off. */
export const asMcp =
  (service: TestService, token: string, tool: 'query' | 'dry_run_sql'): Ask =>
  (sql, params = []) =>
    askTool(service, token, tool, { sql, params, max_rows: 1_000 });

/** A call of any tool. */
export async function askTool(service: TestService, token: string, name: string, args: object): Promise<string> {
  for (let tries = 1; ; tries++) {
    const { status, text } = await rpc(service, token, 'tools/call', { name, arguments: args });
    if (tries < TRIES && text.includes('table_busy')) continue;
    if (status !== 200) throw new Error(`${status} ${text.slice(0, 1_000)}, asked: ${JSON.stringify(args)}`);
    return text;
  }
}

function asking(send: (sql: string, params: readonly unknown[]) => Promise<TestResponse>): Ask {
  return async (sql, params = []) => {
    const put = () => send(sql, params);
    let response = await put();
    for (let tries = 1; tries < TRIES && response.body?.error === 'table_busy'; tries++) response = await put();
    if (response.status >= 500 || response.body?.truncated === true || response.body?.error === 'result_too_large') {
      throw new Error(`${response.status} ${response.text.slice(0, 1_000)}, asked: ${sql.slice(0, 300)}`);
    }
    return `${[...response.headers.values()].join('\n')}\n${response.text}`;
  };
}

/**
 * As a client of the Postgres port, in one session for all questions. What comes with a response, or of its own, counts
 * too.
 */
export function asClient(login: pg.ClientConfig): { ask: Ask; end: () => Promise<void> } {
  let opened: Promise<pg.Client> | null = null;
  const heard: string[] = [];
  const open = async (): Promise<pg.Client> => {
    const client = new pg.Client({
      ...login,
      types: { getTypeParser: () => (text: string | Buffer) => text.toString() },
    });
    for (const event of ['notice', 'notification'] as const) {
      client.on(event as 'notice', (message) => heard.push(JSON.stringify(message)));
    }
    client.on('error', () => (opened = null));
    await client.connect();
    return client;
  };
  const ask: Ask = async (sql, params = []) => {
    const client = await (opened ??= open());
    const response = await client.query({ text: sql, values: [...params], rowMode: 'array' }).then(
      (result) => JSON.stringify([result].flat().map(({ fields, rows }) => [fields, rows])),
      (error: unknown) => JSON.stringify({ ...(error as object), message: (error as Error).message }),
    );
    // Whatever a question began is over with it.
    await client.query('ROLLBACK').catch(() => {});
    return [response, ...heard.splice(0)].join('\n');
  };
  return { ask, end: async () => (await opened)?.end() };
}

/** As the superuser; each question in a transaction that is rolled back. */
export function asSuperuser(login: pg.ClientConfig): { ask: Ask; end: () => Promise<void> } {
  const pool = new pg.Pool({
    ...login,
    options: '-c search_path=data,pg_catalog -c lock_timeout=200',
    // As text, just as Postgres writes it.
    types: { getTypeParser: () => (text: string | Buffer) => text.toString() },
  });
  const ask: Ask = async (sql, params = []) => {
    const client = await pool.connect();
    await client.query('BEGIN');
    try {
      const { rows } = await client.query({ text: sql, values: [...params], rowMode: 'array' });
      return JSON.stringify(rows);
    } catch (error) {
      const { message, detail, hint, where } = error as pg.DatabaseError;
      return JSON.stringify({ message, detail, hint, where });
    } finally {
      await client.query('ROLLBACK');
      client.release();
    }
  };
  return { ask, end: () => pool.end() };
}
