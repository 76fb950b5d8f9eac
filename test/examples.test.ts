/** The examples as a reader runs them: `node examples/<name>.mjs URL TOKEN`, against the real service. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { startTestService, type TestProject, type TestService } from './support/service.js';

let service: TestService;
let project: TestProject;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
});
afterAll(() => service.close());

interface Run {
  code: number | null;
  report: string;
  errors: string;
}

async function example(name: string, ...args: string[]): Promise<Run> {
  const file = fileURLToPath(new URL(`../examples/${name}.mjs`, import.meta.url));
  const child = spawn(process.execPath, [file, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  const closed = once(child, 'close') as Promise<[number | null]>;
  const [report, errors, [code]] = await Promise.all([text(child.stdout), text(child.stderr), closed]);
  return { code, report, errors };
}

/** Facts of the files, pinned: an example that computed both sides wrongly in the same way would still fail here. */
const FIGURES: Record<string, string[]> = {
  earthquakes: [
    '400 invalid_value: Record 0, column "updated": 1517966996303',
    '✓ wrong cells of that batch: 250',
    '✓ records stored of it: n 0',
    '✓ the first batch sent again: inserted_rows 250, replayed true',
    '✓ records in the table: n 1707',
    '2018-02-06  6.4  22km NNE of Hualian, Taiwan',
    'unfelt 1580, no_mmi 1691',
    '✓ with a green alert, by a JSONB parameter: n 12',
    '✓ read back: records 1707, different 0',
  ],
  movies: [
    'films 3201, titles 3176, untitled 1',
    '["1408","1776","1941","2012","2046","21","300","54","9"]',
    '409 not_convertible: 3201 values',
    'name released_at, type TIMESTAMP',
    '[1,7,7,2637,1,0,605,1992,232,365,275,446,1331,880,213,213]',
    '✓ read back: records 3201, different 0',
  ],
  flights: [
    '✓ three batches sent again are known: [true,true,true]',
    '✓ flights in the table: n 231,083',
    '✓ read back: records 231,083, different 0',
    '✓ 409 not_convertible: values that are no whole hours: 208,595',
    'minutes 1,833,299',
    'latest 180',
  ],
};

describe('works', () => {
  it.each(Object.entries(FIGURES))('%s: every response matches the file', async (name, figures) => {
    const { code, report, errors } = await example(name, service.url, project.token);
    expect(errors).toBe('');
    expect(report).not.toContain('✗');
    expect(code).toBe(0);
    for (const figure of figures) expect(report).toContain(figure);
  });

  it('runs again on the table that an earlier run left', async () => {
    const { code, report } = await example('earthquakes', service.url, project.token);
    expect(code).toBe(0);
    expect(report).toContain('✓ records in the table: n 1707');
  });
});

describe('refuses', () => {
  it('ends with 1 and names the question if a response does not match the file', async () => {
    const url = await falsified('"reports":2887', '"reports":2888');
    const { code, report } = await example('earthquakes', url, project.token);
    expect(code).toBe(1);
    expect(report).toMatch(/✗ reports by people.*reports 2888.*\n.*but by the file: reports 2887/);
  });

  it('ends with 1 and names the cell if one cell of one record does not match the file', async () => {
    const url = await falsified('"place":"35km S of Jarm, Afghanistan","felt"', '"place":"nowhere","felt"');
    const { code, report } = await example('earthquakes', url, project.token);
    expect(code).toBe(1);
    expect(report).toMatch(/✗ record \d+, place: nowhere, not 35km S of Jarm, Afghanistan/);
    expect(report).toContain('✗ read back: records 1707, different 1');
  });

  it('ends with 1 if the last rows of a stream are missing', async () => {
    const url = await falsified(/\n.*\n\{"done":true,"row_count":1707\}\n$/, '\n{"done":true,"row_count":1706}\n');
    const { code, report } = await example('earthquakes', url, project.token);
    expect(code).toBe(1);
    expect(report).toContain('✗ read back: records 1706, different 0');
  });

  it('ends with 1 and the refusal if the token is wrong', async () => {
    const { code, errors } = await example('movies', service.url, 'cdp_wrong');
    expect(code).toBe(1);
    expect(errors).toContain('Refused [Error]: unauthorized: ');
  });

  it('ends with 2 and its usage if the token is missing', async () => {
    const { code, errors } = await example('flights', service.url);
    expect(code).toBe(2);
    expect(errors).toMatch(/^Usage: node .*flights\.mjs URL TOKEN\n$/);
  });
});

/** @returns the URL of a proxy before the service that replaces a text in its responses, until the test is over */
async function falsified(right: string | RegExp, wrong: string): Promise<string> {
  const proxy = createServer((request, reply) => {
    void (async () => {
      const body = await text(request);
      const { authorization = '', accept = '*/*', 'idempotency-key': key } = request.headers;
      const response = await fetch(service.url + request.url, {
        method: request.method ?? 'GET',
        headers: {
          authorization,
          accept,
          'content-type': 'application/json',
          ...(key === undefined ? {} : { 'idempotency-key': String(key) }),
        },
        ...(body === '' ? {} : { body }),
      });
      const replayed = response.headers.get('idempotency-replayed');
      if (replayed !== null) reply.setHeader('idempotency-replayed', replayed);
      reply.writeHead(response.status).end((await response.text()).replace(right, wrong));
    })();
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  onTestFinished(() => void proxy.close());
  return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
}
