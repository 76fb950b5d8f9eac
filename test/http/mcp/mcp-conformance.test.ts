/**
 * The official conformance tests of MCP, for both supported revisions. They expect a server that offers everything;
 * this one offers only its own tools. So every failure must concern something that is not offered.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { projectRoot } from '../../support/program.js';
import { startTestService, type TestService } from '../../support/service.js';

const PROGRAM = join(projectRoot, 'node_modules/@modelcontextprotocol/conformance/dist/index.js');
const NODE_20 = fileURLToPath(new URL('../../support/with-glob-sync.mjs', import.meta.url));

/** What the tests of these scenarios call is not offered, or is a tool of their own example. */
const NOT_OFFERED: readonly RegExp[] = [
  /^(resources|prompts|completion|logging|elicitation)-/,
  // Tools that answer with images, sounds and the like, ask the user, or sample the model.
  /^tools-call-/,
  /^input-required-result-/,
  /^json-schema-2020-12$/,
  /^http-custom-header-server-validation$/,
  // An extension.
  /^tasks-/,
];

/** The same, of single checks in scenarios that apply. */
const NOT_OFFERED_CHECKS: readonly string[] = [
  // Tools of the example.
  'sep-2575-server-rejects-undeclared-capability',
  'sep-2575-missing-capability-http-400',
  'sep-2575-http-server-no-independent-requests-on-stream',
  'sep-2575-server-no-log-without-loglevel',
  // Subscriptions: nothing of what is offered changes.
  'sep-2575-server-sends-subscription-ack',
  'sep-2575-server-tags-subscription-id',
  'sep-2549-prompts-list-caching-hints',
  'sep-2549-resources-list-caching-hints',
  'sep-2549-resources-templates-list-caching-hints',
];

let service: TestService;
let folder: string;
beforeAll(async () => {
  service = await startTestService({ 'mcp-writes': 'true' });
  folder = mkdtempSync(join(tmpdir(), 'cdp-mcp-'));
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await service.close();
});

/** The tests send no token: a proxy adds it, and passes on everything else as it is. */
async function withToken<T>(work: (url: string) => Promise<T>): Promise<T> {
  const { token } = await service.project();
  const { hostname: host, port } = new URL(service.url);
  const proxy = createServer((asked, response) => {
    const headers = { ...asked.headers, authorization: `Bearer ${token}` };
    const passed = request({ host, port, method: asked.method, path: asked.url, headers }, (received) => {
      response.writeHead(received.statusCode ?? 0, received.headers);
      received.pipe(response);
    });
    passed.on('error', () => response.destroy());
    asked.pipe(passed);
  });
  await new Promise<void>((resolve) => proxy.listen(0, resolve));
  try {
    return await work(`http://localhost:${(proxy.address() as AddressInfo).port}/mcp`);
  } finally {
    proxy.closeAllConnections();
    proxy.close();
  }
}

interface Check {
  id: string;
  status: string;
  errorMessage?: string;
}

/** The checks of each scenario that a revision requires of a server. */
async function checksOf(revision: string): Promise<Map<string, Check[]>> {
  const output = join(folder, revision);
  await withToken(async (url) => {
    const args = ['--import', NODE_20, PROGRAM, 'server', '--url', url, '--requirements', revision, '-o', output];
    // It fails if any scenario does; the files say which.
    await new Promise((resolve) => execFile(process.execPath, args, { cwd: folder }, resolve));
  });
  return new Map(
    readdirSync(output).map((name) => [
      name.replace(/^server-(.*)-\d{4}-\d\d-\d\dT.*$/, '$1'),
      JSON.parse(readFileSync(join(output, name, 'checks.json'), 'utf8')) as Check[],
    ]),
  );
}

it('docs/mcp.md names everything that is left out', () => {
  const page = readFileSync(join(projectRoot, 'docs/mcp.md'), 'utf8');
  const named = [...page.slice(page.indexOf('## Conformance')).matchAll(/`([a-z0-9-]+(?:-\*)?)`/g)].map(
    ([, name]) => name ?? '',
  );
  expect(named).toEqual(expect.arrayContaining([...NOT_OFFERED_CHECKS]));
  for (const pattern of NOT_OFFERED)
    expect(
      named.filter((name) => pattern.test(name)),
      pattern.source,
    ).not.toEqual([]);
});

it.each([
  ['2025-11-25', ['dns-rebinding-protection', 'ping', 'server-initialize', 'tools-list']],
  [
    '2026-07-28',
    [
      'caching',
      'dns-rebinding-protection',
      'http-header-validation',
      'sep-2164-resource-not-found',
      'server-sse-multiple-streams',
      'server-stateless',
      'tools-list',
    ],
  ],
])('%s: passes everything except what is not offered', async (revision, applying) => {
  const found = [...(await checksOf(revision))];
  const wire = found.flatMap(([, checks]) => checks.filter(({ id }) => id === 'wire-schema-valid'));
  expect(wire.length).toBeGreaterThan(20);
  expect(wire.filter(({ status }) => status !== 'SUCCESS')).toEqual([]);
  const all = found.filter(([name]) => !NOT_OFFERED.some((pattern) => pattern.test(name)));
  const checked = all.filter(([, checks]) => checks.some(({ status }) => status === 'SUCCESS'));
  expect(checked.map(([name]) => name).sort()).toEqual(applying);
  const failed = all.flatMap(([name, checks]) =>
    checks
      .filter(({ id, status }) => status === 'FAILURE' && !NOT_OFFERED_CHECKS.includes(id))
      .map(({ id, errorMessage }) => [name, id, errorMessage]),
  );
  expect(failed).toEqual([]);
});
