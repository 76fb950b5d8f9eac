/** `cdp mcp`: clients that use stdio reach the tools, and see the errors of the service. */
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { person } from '../support/cdp.js';
import { toolResponse } from '../support/mcp.js';
import { endEverything, freePort, projectRoot } from '../support/program.js';
import { isIdle, runningRequests, startTestService, type TestProject, type TestService } from '../support/service.js';
import { until } from '../support/stream.js';

let service: TestService;
let project: TestProject;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  await project.table('people', { name: 'TEXT' });
});
afterAll(async () => {
  await endEverything();
  await service.close();
});

const server = () => ({
  command: process.execPath,
  args: [join(projectRoot, 'dist/cli/bin.js'), 'mcp'],
  env: { CDP_URL: service.url, CDP_TOKEN: project.token, PATH: process.env.PATH ?? '', HOME: '/' },
});

const line = (id: number | undefined, method: string, params: object = {}): string =>
  `${JSON.stringify({ jsonrpc: '2.0', ...(id === undefined ? {} : { id }), method, params })}\n`;

const responsesIn = (stdout: string): Record<string, unknown>[] =>
  stdout.split('\n').flatMap((text) => (text === '' ? [] : [JSON.parse(text) as Record<string, unknown>]));

describe('works:', () => {
  it('for a client of the revision 2025-11-25', async () => {
    const client = new OldClient({ name: 'test', version: '1' });
    await client.connect(new OldTransport(server()));
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toContain('query');
    // Some readers take these for the ends of lines.
    const s = 'é\u2028\u2029\u0085\n{"jsonrpc":"2.0"}';
    const sql = 'SELECT $1::text AS s';
    const { structured } = toolResponse(await client.callTool({ name: 'query', arguments: { sql, params: [s] } }));
    expect(structured?.data.rows).toEqual([{ s }]);
    await client.close();
  });

  it('for a client of the revision 2026-07-28, with many calls at once', async () => {
    const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } });
    await client.connect(new StdioClientTransport(server()));
    expect(client.getNegotiatedProtocolVersion()).toBe('2026-07-28');
    await client.listTools();
    const calls = Array.from({ length: 10 }, async (_, n) => {
      const sql = 'SELECT $1::int AS n FROM pg_sleep(0.01)';
      const { structured } = toolResponse(await client.callTool({ name: 'query', arguments: { sql, params: [n] } }));
      expect(structured?.data.rows).toEqual([{ n }]);
    });
    await Promise.all(calls);
    await client.close();
  });

  it('a call that the client cancels ends in Postgres, too', async () => {
    const client = new OldClient({ name: 'test', version: '1' });
    await client.connect(new OldTransport(server()));
    const controller = new AbortController();
    const args = { sql: 'SELECT pg_sleep(3600)', timeout_ms: 60_000 };
    const call = client.callTool({ name: 'query', arguments: args }, undefined, { signal: controller.signal });
    await until(() => runningRequests(service) === 1, 30_000);
    controller.abort();
    await expect(call).rejects.toThrow();
    await until(() => isIdle(service), 30_000);
    expect((await client.callTool({ name: 'query', arguments: { sql: 'SELECT 1' } })).isError).toBeUndefined();
    await client.close();
  });
});

describe('reports', () => {
  it('what the service refuses as an error of the protocol, and continues', async () => {
    const token = await project.tokenWith('schema:read');
    const reader = await person({ CDP_URL: service.url, CDP_TOKEN: token });
    const query = { name: 'query', arguments: { sql: 'SELECT 1' } };
    const input = `not JSON\nnull\n${line(1, 'tools/call', query)}${line(undefined, 'notifications/initialized')}\n${line(2, 'ping')}`;
    const { code, stdout, stderr } = await reader.run(['mcp'], input);
    expect([code, stderr]).toEqual([0, 'body must be an object\n']);
    const responses = responsesIn(stdout);
    expect(responses).toHaveLength(3);
    expect(responses).toContainEqual(
      expect.objectContaining({ id: null, error: expect.objectContaining({ code: -32_700 }) as unknown }),
    );
    expect(responses).toContainEqual({
      jsonrpc: '2.0',
      id: 1,
      error: {
        code: -32_000,
        message: expect.stringContaining('sql:read') as string,
        data: { status: 403, error: 'insufficient_scope' },
      },
    });
    expect(responses).toContainEqual(expect.objectContaining({ id: 2, result: {} }));
    expect(stdout).not.toContain(token);
  });

  it('that the service cannot be reached, and that there is no profile', async () => {
    const lost = await person({ CDP_URL: `http://127.0.0.1:${await freePort()}`, CDP_TOKEN: project.token });
    const { stdout } = await lost.run(['mcp'], line(1, 'ping'));
    expect(responsesIn(stdout)).toMatchObject([
      { id: 1, error: { message: expect.stringContaining('ECONNREFUSED') as string } },
    ]);
    const nobody = await person();
    expect(await nobody.run(['mcp'], line(1, 'ping'))).toMatchObject({ code: 2, stdout: '' });
  });
});
