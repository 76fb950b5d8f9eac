/**
 * Checks the files of `deploy/` against the program, as far as that is possible without Docker, systemd, Prometheus or
 * Grafana: every metric that they query is exposed under load, every setting, command and path that they name exists,
 * and the health check of the image tells a service that answers. What the image consists of: process/image.test.ts.
 */
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ERROR_CODES } from '../src/contract/errors.js';
import { LIMITS } from '../src/contract/limits.js';
import { openApiDocument } from '../src/http/api/openapi.js';
import { RECOMMENDED_SETTINGS } from '../src/engine/servers/recommended-settings.js';
import { SETTINGS } from '../src/settings.js';
import { refusedLogin, withClient } from './postgres-port/connect.js';
import { startAddedServer, variableWith } from './support/added-server.js';
import { eventually, projectRoot, runProgram } from './support/program.js';
import { startOwnService, startTestService, type TestService } from './support/service.js';

const read = (file: string) => readFileSync(`${projectRoot}/deploy/${file}`, 'utf8');
const FILES = {
  docker: read('Dockerfile'),
  compose: read('compose.yaml'),
  unit: read('cdp.service'),
  haproxy: read('haproxy.cfg'),
  alerts: read('prometheus/alerts.yaml'),
  dashboard: read('grafana/dashboard.json'),
};

/** Metrics by name, with the values of each label that they were seen with. */
type Exposed = Map<string, Map<string, Set<string>>>;

it('the unit, the packages and the API name the same page of the package', () => {
  const page = /^Documentation=(.*)$/m.exec(FILES.unit)?.[1];
  const homepage = (folder: string) =>
    (JSON.parse(readFileSync(`${projectRoot}/${folder}/package.json`, 'utf8')) as { homepage: string }).homepage;
  expect(page).toBe('https://www.npmjs.com/package/cdp-data-engine');
  expect([homepage('.'), homepage('packages/client')]).toEqual([page, `${page}-client`]);
  const { info } = openApiDocument([]) as { info: { contact: { url: string } } };
  expect(info.contact.url).toBe(page);
});

describe('metrics that dashboards and alerts query', () => {
  let service: TestService;
  let exposed: Exposed;
  beforeAll(async () => {
    service = await startTestService();
    const project = await service.project();
    await project.table('notes', { note: 'TEXT' });
    await project.call('POST', '/api/cdp/data/notes', { body: [{ note: 'a' }] });
    await project.call('POST', '/api/cdp/sql', { body: { sql: 'SELECT pg_sleep(9)', timeout_ms: 100 } });
    // Some metrics are those of embedded servers alone, or of backups.
    const own = await startOwnService({ 'pg-port': '0', 'backup-to': '/nowhere/backup' });
    const { name, token: password } = await own.project();
    const client = { host: '127.0.0.1', port: own.postgresPort ?? 0, database: name, password };
    await withClient({ ...client, user: 'writer' }, async (session) => {
      await session.query('SELECT pg_terminate_backend(pg_backend_pid())').catch(() => {});
    });
    await refusedLogin({ ...client, user: 'nobody' });
    // Some are those of added servers.
    const added = await startAddedServer();
    const { token } = await service.engine.tokens.create(null);
    const server = { name: 'second', url_reference: `env:${variableWith(added.url)}` };
    expect((await service.call('POST', '/api/cdp/admin/servers', { token, body: server })).status).toBe(201);
    const isWatched = () => Promise.resolve(service.engine.serverWatch.states.length > 0);
    await eventually('the added server is watched', isWatched);
    const texts = await Promise.all([service, own].map(async (one) => (await one.call('GET', '/metrics')).text));
    await own.close();
    await added.close();
    exposed = metricsIn(texts.join('\n'));
  });
  afterAll(() => service.close());

  const dashboard = JSON.parse(FILES.dashboard) as {
    panels: { title: string; targets?: { expr: string; legendFormat?: string }[] }[];
  };
  const queries = dashboard.panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr, legendFormat = '' }) => ({ title, text: `${expr} ${legendFormat}` })),
  );
  const alerts = [...FILES.alerts.matchAll(/- alert: (\w+)\n\s+expr: ([^]*?)\n\s+(?:for|labels):/g)].map(
    ([, title = '', text = '']) => ({ title, text }),
  );

  const reasons = [...Object.keys(ERROR_CODES), 'malformed', 'login_timeout', 'tls_required', 'too_many_sessions'];

  it('exist', () => {
    expect(queries.length).toBeGreaterThan(15);
    expect(alerts.length).toBe(FILES.alerts.match(/- alert:/g)?.length);
  });

  it('let an alert on single failures see the first of its kind, whose series begins at 1, without waiting for more', () => {
    const single = alerts.filter(({ text }) => /\{code="\w+"\}/.test(text) && /> 0\s*$/.test(text));
    expect(single.map(({ title }) => title)).toEqual(['CdpInternalErrors', 'CdpOutcomeUnknown']);
    for (const { title, text } of single) {
      const [series = ''] = /cdp_http_requests_total\{code="\w+"\}/.exec(text) ?? [];
      expect(text).toContain(`(${series} unless ${series} offset 10m)`);
      expect(FILES.alerts).not.toMatch(new RegExp(`alert: ${title}\\n(?:(?!- alert:)[^])*\\bfor:`));
    }
  });

  it.each([...queries, ...alerts])('$title', ({ text }) => {
    const names = text.match(/\b(cdp|process|nodejs)_\w+/g) ?? [];
    // `up` is Prometheus's own.
    if (!/\bup\{/.test(text)) expect(names).not.toEqual([]);
    for (const name of names) expect([...exposed.keys()]).toContain(name);
    for (const [, name = '', label = '', value = ''] of text.matchAll(
      /(cdp_\w+)\{[^}]*?\b(code|route|reason)=~?"([^"]*)"/g,
    )) {
      expect([...(exposed.get(name)?.keys() ?? [])]).toContain(label);
      if (label === 'code') expect(Object.keys(ERROR_CODES)).toContain(value);
      if (label === 'reason') for (const word of value.split('|')) expect(reasons).toContain(word);
    }
    for (const [, labels = ''] of text.matchAll(/\bby \(([^)]*)\)/g)) {
      const known = new Set(names.flatMap((name) => [...(exposed.get(name)?.keys() ?? [])]));
      for (const label of labels.split(/,\s*/)) if (label !== 'instance') expect([...known]).toContain(label);
    }
  });
});

describe('the deployment files', () => {
  const environment = Object.values(SETTINGS).map(({ env }) => env);

  it.each(Object.entries(FILES))('%s names only settings that exist', (_, text) => {
    const named = text.match(/\b(CDP_[A-Z_]+|DATABASE_URL)\b/g) ?? [];
    expect(environment).toEqual(expect.arrayContaining([...new Set(named)]));
  });

  it('the image has the Node version that the package requires, and a health check on a path that answers', () => {
    expect(FILES.docker).toMatch(/^ARG NODE_IMAGE=node:22\./m);
    expect(FILES.docker).toContain('/healthz`');
    expect(FILES.docker.match(/^USER node$/m)).not.toBeNull();
  });

  it('compose builds from files that exist, and both services require their secrets', () => {
    expect(existsSync(`${projectRoot}/${/dockerfile: (\S+)/.exec(FILES.compose)?.[1] ?? 'none'}`)).toBe(true);
    expect(FILES.compose.match(/\?set it in \.env/g)).toHaveLength(3);
  });

  it('compose gives Postgres the settings that cdp doctor recommends', () => {
    for (const { name } of RECOMMENDED_SETTINGS) expect(FILES.compose).toContain(`- ${name}=`);
  });

  it('the unit delegates its control group and does not protect it from writes', () => {
    expect(FILES.unit).toMatch(/^Delegate=yes$/m);
    expect(FILES.unit).not.toMatch(/^ProtectControlGroups=yes$/m);
  });

  it('the unit does not restart after exit code 2 for wrong settings, and loses no log line', async () => {
    const { code } = await runProgram(['serve'], { env: { CDP_PORT: 'none' } });
    expect(FILES.unit).toMatch(new RegExp(`^RestartPreventExitStatus=${code}$`, 'm'));
    expect(FILES.unit).toMatch(/^LogRateLimitIntervalSec=0$/m);
  });

  it('the unit gives requests more time to finish than the service does', () => {
    const seconds = Number(/^TimeoutStopSec=(\d+)$/m.exec(FILES.unit)?.[1]);
    expect(seconds * 1000).toBeGreaterThan(SETTINGS.shutdownMs.default);
    expect(Number(/stop_grace_period: (\d+)s/.exec(FILES.compose)?.[1]) * 1000).toBeGreaterThan(
      SETTINGS.shutdownMs.default,
    );
  });

  it('HAProxy gives requests more time than the longest one may take', () => {
    const seconds = Number(/timeout server (\d+)s/.exec(FILES.haproxy)?.[1]);
    expect(seconds * 1000).toBeGreaterThan(LIMITS.timeoutMsMax);
  });

  it('the health check of the image distinguishes a service that answers from one that does not', async () => {
    const service = await startTestService();
    const [program, ...args] = JSON.parse(
      /HEALTHCHECK[^\n]*\\\n\s+CMD (\[.*\])/.exec(FILES.docker)?.[1] ?? '',
    ) as string[];
    const check = (port: string) =>
      promisify(execFile)(program ?? '', args, { env: { PATH: process.env.PATH, CDP_PORT: port } }).then(
        () => 0,
        ({ code }: { code: number }) => code,
      );
    expect(await check(new URL(service.url).port)).toBe(0);
    await service.close();
    expect(await check(new URL(service.url).port)).toBe(1);
  });
});

/** From Prometheus's text format. */
function metricsIn(text: string): Exposed {
  const found: Exposed = new Map();
  for (const line of text.split('\n')) {
    const [, name, labels = ''] = /^([a-zA-Z_]\w*)(?:\{([^}]*)\})? /.exec(line) ?? [];
    if (name === undefined) continue;
    const known = found.get(name) ?? new Map<string, Set<string>>();
    found.set(name, known);
    for (const [, label = '', value = ''] of labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
      known.set(label, (known.get(label) ?? new Set()).add(value));
    }
  }
  return found;
}
