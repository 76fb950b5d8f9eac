/** A client of streamed SQL that reads only when asked to, and a look at what Postgres does meanwhile. */
import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { onServer, type TestProject, type TestService } from './service.js';

export const NDJSON = 'application/x-ndjson';
export const CSV = 'text/csv';

export interface OpenStream {
  readonly sent: ClientRequest;
  /** Paused. */
  readonly response: IncomingMessage;
  /** Everything up to the end; `whole` is false where the chunked encoding was broken off. */
  rest(): Promise<{ text: string; whole: boolean }>;
}

/** Sends free SQL and waits for the head of the response, on a connection of its own. */
export async function openStream(
  service: TestService,
  project: TestProject,
  accept: string,
  body: object,
): Promise<OpenStream> {
  const sent = request(`${service.url}/api/cdp/sql`, {
    method: 'POST',
    agent: false,
    headers: { authorization: `Bearer ${project.token}`, 'content-type': 'application/json', accept },
  });
  sent.end(JSON.stringify(body));
  sent.on('error', () => {});
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  response.pause();
  response.on('error', () => {});
  return {
    sent,
    response,
    rest: async () => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.resume();
      await new Promise((resolve) => response.once('close', resolve));
      return { text: Buffer.concat(chunks).toString(), whole: response.complete };
    },
  };
}

/** What the statements at work wait for (null: nothing, they compute) whose text holds `mark`. */
export function statementsWith(service: TestService, mark: string): Promise<(string | null)[]> {
  return onServer(service.server, async (client) => {
    const { rows } = await client.query<{ wait: string | null }>(
      `SELECT wait_event AS wait FROM pg_stat_activity
       WHERE state <> 'idle' AND query LIKE $1 AND pid <> pg_backend_pid()`,
      [`%${mark}%`],
    );
    return rows.map(({ wait }) => wait);
  });
}

/** @throws Error where it has not come true after `ms` */
export async function until(what: () => Promise<boolean> | boolean, ms: number): Promise<void> {
  const end = performance.now() + ms;
  while (!(await what())) {
    if (performance.now() > end) throw new Error(`Not within ${ms} ms: ${what.toString()}`);
    await sleep(20);
  }
}
