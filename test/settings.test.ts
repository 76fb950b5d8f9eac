/** The settings: where a value may come from, which source wins, and what each parser accepts and refuses. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { tmpdir } from 'node:os';
import { afterAll, describe, expect, it } from 'vitest';
import { ConfigError, loadConfig } from '../src/cli/load-config.js';
import type { Setting, Shown } from '../src/setting-kinds.js';
import { type SettingName, SETTINGS } from '../src/settings.js';

const folder = mkdtempSync(join(tmpdir(), 'cdp-config-'));
afterAll(() => rmSync(folder, { recursive: true }));

let files = 0;
function file(content: unknown): string {
  const path = join(folder, `${++files}.json`);
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
}

const EMPTY = file({});

/** One setting given as a flag. */
const value = (name: SettingName, given: string) => {
  const text = { ...COMPANIONS[name], [SETTINGS[name].flag]: given };
  return loadConfig(text, {}, EMPTY).config[name];
};

/** Settings that another one needs, or that leave it room. */
const COMPANIONS: Partial<Record<SettingName, Record<string, string>>> = {
  databaseUrl: { secret: 's'.repeat(32) },
  secretPrevious: { secret: 'y'.repeat(32) },
  projectRunning: { 'project-reserved': '0' },
  projectReserved: { 'project-running': '1000' },
  jwtIssuer: { 'jwt-audience': 'a', 'jwt-jwks-url': 'https://example.com/keys' },
  jwtAudience: { 'jwt-issuer': 'i', 'jwt-jwks-url': 'https://example.com/keys' },
  jwtJwksUrl: { 'jwt-issuer': 'i', 'jwt-audience': 'a' },
  tlsCert: { 'tls-key': '/k.pem' },
  tlsKey: { 'tls-cert': '/c.pem' },
};

describe('works', () => {
  it('prefers a flag to the environment, the environment to the file, and the file to the default', () => {
    const path = file({ port: 3, host: 'from-file', 'wait-ms': '30' });
    const environment = { CDP_PORT: '2', CDP_HOST: 'from-environment' };
    const { config, sources } = loadConfig({ port: '1' }, environment, path);
    expect(config).toMatchObject({ port: 1, host: 'from-environment', waitMs: 30, logLevel: 'info' });
    expect(sources).toMatchObject({ port: 'flag', host: 'environment', waitMs: 'file', logLevel: 'default' });
  });

  it('uses every default if nothing is given', () => {
    const { config, sources } = loadConfig({}, {}, EMPTY);
    const defaults = Object.entries(SETTINGS).map(([name, row]) => [name, row.default]);
    expect(config).toEqual({ ...Object.fromEntries(defaults), dataDir: resolve('.cdp') });
    expect(new Set(Object.values(sources))).toEqual(new Set(['default']));
  });

  it('has the defaults that callers rely on', () => {
    expect(loadConfig({}, {}, EMPTY).config).toMatchObject({
      projectRunning: 8,
      projectReserved: 2,
      projectWaiting: 64,
      waitMs: 5_000,
      wrongTokens: 30,
      rateLimit: null,
      corsOrigins: null,
      schemaHoldMs: 30_000,
      streamStallMs: 30_000,
      shutdownMs: 30_000,
      quarantineDays: 30,
      receiptDays: 7,
    });
  });

  it('treats an empty environment variable as not set', () => {
    expect(loadConfig({}, { CDP_PORT: '' }, EMPTY)).toMatchObject({
      config: { port: 8080 },
      sources: { port: 'default' },
    });
  });

  it('accepts off for the user IDs of projects', () => {
    expect(value('projectUids', 'off')).toBeNull();
  });

  it('accepts true and false as JSON booleans in the file', () => {
    const { config } = loadConfig({}, {}, file({ 'metrics-by-project': true }));
    expect(config).toMatchObject({ metricsByProject: true });
    expect(loadConfig({}, {}, file({ 'metrics-by-project': false })).config.metricsByProject).toBe(false);
  });

  it('parses rate limits and lists', () => {
    expect(value('rateLimit', '5000/1m')).toEqual({ requests: 5_000, windowS: 60 });
    expect(value('trustProxy', 'loopback, 10.0.0.0/8')).toEqual(['loopback', '10.0.0.0/8']);
    expect(value('corsOrigins', 'https://a.example,http://localhost:3000')).toEqual([
      'https://a.example',
      'http://localhost:3000',
    ]);
    expect(value('corsOrigins', '*')).toEqual(['*']);
  });

  it('makes the data folder absolute', () => {
    expect(value('dataDir', 'here')).toBe(resolve('here'));
  });

  it('has a flag and an environment variable of its own for each setting', () => {
    const rows = Object.values(SETTINGS);
    expect(new Set(rows.map(({ flag }) => flag)).size).toBe(rows.length);
    expect(new Set(rows.map(({ env }) => env)).size).toBe(rows.length);
    for (const { flag, env } of rows) {
      expect(flag).toMatch(/^[a-z]+(-[a-z]+)*$/);
      expect(env).toBe(flag === 'database-url' ? 'DATABASE_URL' : `CDP_${flag.toUpperCase().replaceAll('-', '_')}`);
    }
  });

  it('accepts each default as an explicit value', () => {
    for (const [name, row] of Object.entries(SETTINGS as Record<SettingName, Setting<Shown>>)) {
      if (row.default === null || String(row.default) === '' || name === 'dataDir') continue;
      expect(value(name as SettingName, String(row.default)), name).toBe(row.default);
    }
  });
});

/** Least and most of the settings that are numbers. */
const BOUNDS: Partial<Record<SettingName, [number, number]>> = {
  port: [0, 65_535],
  maxConnections: [2, 10_000],
  running: [2, 10_000],
  backendMemoryMib: [64, 1_048_576],
  maxServers: [2, 100_000],
  idleStopMs: [1_000, 86_400_000],
  sharedBuffersMib: [1, 1_048_576],
  parallelWorkers: [0, 1_000],
  maxWalSizeMib: [16, 1_048_576],
  diskReserveMib: [0, 1_048_576],
  idleConnectionMs: [100, 86_400_000],
  projectRunning: [2, 1_000],
  archiveDays: [1, 36_500],
  projectReserved: [0, 999],
  projectWaiting: [0, 100_000],
  waitMs: [1, 60_000],
  schemaHoldMs: [100, 3_600_000],
  streamStallMs: [100, 3_600_000],
  requestTimeoutMs: [100, 3_600_000],
  wrongTokens: [0, 1_000_000],
  pgPort: [0, 65_535],
  pgSessions: [1, 1_000],
  pgSessionsTotal: [1, 10_000],
  pgIdleMs: [100, 86_400_000],
  pgIdleTransactionMs: [100, 86_400_000],
  pgTransactionMs: [100, 86_400_000],
  shutdownMs: [0, 3_600_000],
  metricsPort: [0, 65_535],
  auditDays: [1, 36_500],
  quarantineDays: [1, 36_500],
  receiptDays: [1, 400],
};

/** Good and bad values of the others. */
const TEXTS: Partial<Record<SettingName, { good: string[]; bad: string[] }>> = {
  host: { good: ['::', '0.0.0.0', 'localhost'], bad: [''] },
  dataDir: { good: ['/a b/ü'], bad: [''] },
  databaseUrl: {
    good: ['postgres://u:p@h:5432/d?sslmode=require', 'postgresql://u@/d?host=/run'],
    bad: ['', 'mysql://u:p@h/d', 'host=h user=u', '/run/postgresql d'],
  },
  secret: { good: ['x'.repeat(32)], bad: ['', 'x'.repeat(31)] },
  secretPrevious: { good: ['x'.repeat(32)], bad: ['', 'x'.repeat(31)] },
  extensions: { good: ['citext', 'pg_trgm,uuid-ossp'], bad: ['', 'a,', 'A', 'a;b', 'a b', '"a"'] },
  backupTo: { good: ['/mnt/backup/cdp'], bad: [''] },
  backupAt: { good: ['0 3 * * *', '*/15 * * * 1-5', '@daily'], bad: ['', '3', 'daily', '0 25 * * *', '0 3 30 2 *'] },
  backupCommand: { good: ['restic -r /r backup'], bad: [''] },
  postgresBin: { good: ['/usr/lib/postgresql/18/bin'], bad: [''] },
  logLevel: { good: ['trace', 'debug', 'info', 'warn', 'error', 'silent'], bad: ['', 'INFO', 'verbose'] },
  audit: { good: ['all', 'changes', 'off'], bad: ['', 'ALL', 'none', 'true'] },
  auditStatements: { good: ['hash', 'text'], bad: ['', 'sha256', 'TEXT'] },
  console: { good: ['true', 'false'], bad: ['', 'yes', '0'] },
  mcpWrites: { good: ['true', 'false'], bad: ['', 'yes', '0'] },
  pgHost: { good: ['::', '0.0.0.0', 'localhost'], bad: [''] },
  tlsCert: { good: ['/a b/ü.pem'], bad: [''] },
  tlsKey: { good: ['/a b/ü.pem'], bad: [''] },
  pgPlain: { good: ['true', 'false'], bad: ['', 'yes', '0'] },
  metricsByProject: { good: ['true', 'false'], bad: ['', 'yes', '0'] },
  traceDetail: { good: ['route', 'names', 'statements'], bad: ['', 'NAMES', 'all'] },
  projectUids: { good: ['50000-59999', '1-1'], bad: ['', '0-9', '9-8', '50000', '1-', '1-2147483648', 'OFF'] },
  rateLimit: {
    good: ['1/1s', '100/10s', '5000/1m', '999999999/24h', '1/86400s'],
    bad: [
      '',
      '100',
      '0/1s',
      '-1/1s',
      '100/0s',
      '100/1',
      '100/1d',
      '100/25h',
      '1.5/1s',
      '1/1.5s',
      ' 1/1s',
      '1/ 1s',
      '1e3/1s',
    ],
  },
  trustProxy: {
    good: ['127.0.0.1', '10.0.0.0/8', 'loopback', '::1', 'fd00::/8', 'loopback, uniquelocal,192.0.2.0/24'],
    bad: [
      '',
      'true',
      '*',
      '1',
      '10.0.0.0/33',
      '::/129',
      '10.0.0.0/',
      '10.0.0.0/8/8',
      '10.0.0',
      'proxy.example.com',
      '127.0.0.1,',
    ],
  },
  corsOrigins: {
    good: ['*', 'https://app.example.com', 'http://localhost:3000', 'https://a.example, https://b.example:8443'],
    bad: [
      '',
      'app.example.com',
      'https://a.example/',
      'https://a.example/x',
      'https://A.example',
      '*,https://a.example',
      'https://*.example',
      'null',
      'https://a.example,',
      'file:///x',
      'https://a.example:443',
    ],
  },
  webhookNetworks: {
    good: ['127.0.0.1', '10.0.0.0/8', '::1', 'fd00::/8', '10.0.0.0/8,192.0.2.0/24'],
    bad: ['', 'loopback', '*', '10.0.0.0/33', '::/129', '10.0.0.0/', '10.0.0.0/8/8', 'example.com', '127.0.0.1,'],
  },
  metricsHost: { good: ['127.0.0.1'], bad: [''] },
  jwtIssuer: { good: ['https://issuer.example.com/', 'issuer'], bad: [''] },
  jwtAudience: { good: ['cdp'], bad: [''] },
  jwtJwksUrl: {
    good: ['https://example.com/keys', 'http://127.0.0.1:9/k'],
    bad: ['', 'keys', 'file:///etc/keys', 'http://'],
  },
};

const SIZES: Partial<Record<SettingName, { good: [string, number | null][]; bad: string[] }>> = {
  projectQuota: {
    good: [
      ['off', null],
      ['16MB', 16 * 1024 ** 2],
      ['10gb', 10 * 1024 ** 3],
      ['1024TB', 1024 ** 5],
    ],
    bad: ['', '0', '15MB', '1025TB', '10', '10 GB', '1.5GB', '-1GB', '10GiB', 'none', '9'.repeat(400)],
  },
};

describe('refuses', () => {
  it('has the bounds of every setting in this test', () => {
    expect([...Object.keys(BOUNDS), ...Object.keys(TEXTS), ...Object.keys(SIZES)].sort()).toEqual(
      Object.keys(SETTINGS).sort(),
    );
  });

  it.each(Object.entries(BOUNDS) as [SettingName, [number, number]][])('%s outside its bounds', (name, [min, max]) => {
    expect(value(name, String(min))).toBe(min);
    expect(value(name, String(max))).toBe(max);
    for (const bad of [
      String(min - 1),
      String(max + 1),
      '',
      ' 8',
      '8 ',
      '8.0',
      '8e0',
      '0x8',
      '+8',
      'many',
      '9'.repeat(400),
    ]) {
      expect(() => value(name, bad), JSON.stringify(bad)).toThrow(ConfigError);
    }
  });

  it.each(Object.entries(TEXTS) as [SettingName, { good: string[]; bad: string[] }][])(
    'an invalid %s',
    (name, texts) => {
      for (const good of texts.good) {
        const taken: unknown = value(name, good);
        if (SETTINGS[name].isShownAsWritten !== true) expect(String(taken)).toBe(good);
      }
      for (const bad of texts.bad) expect(() => value(name, bad), JSON.stringify(bad)).toThrow(ConfigError);
    },
  );

  it.each(Object.entries(SIZES) as [SettingName, { good: [string, number | null][]; bad: string[] }][])(
    '%s if it is not a size',
    (name, { good, bad }) => {
      for (const [given, bytes] of good) expect(value(name, given)).toBe(bytes);
      for (const given of bad) expect(() => value(name, given), JSON.stringify(given)).toThrow(ConfigError);
    },
  );

  it('a bad value, under the name that the operator used', () => {
    const load = (flags: Record<string, string>, env: Record<string, string>, content: object) => () =>
      loadConfig(flags, env, file(content));
    expect(load({ port: 'x' }, {}, {})).toThrow(/^--port: must be a whole number from 0 to 65535$/);
    expect(load({}, { CDP_PORT: 'x' }, {})).toThrow(/^CDP_PORT: must be/);
    expect(load({}, {}, { port: 'x' })).toThrow(/^"port" in the settings file: must be/);
  });

  it('bad secrets without repeating them', () => {
    for (const flags of [{ secret: 'hidden' }, { 'database-url': 'hidden://u:hidden@h/d' }]) {
      expect(() => loadConfig(flags, {}, EMPTY)).toThrow(expect.not.objectContaining({ message: /hidden/ }) as Error);
    }
  });

  it('a secret file if the secret is set twice or the file cannot be read, and names the variable', () => {
    const load = (env: Record<string, string>) => loadConfig({}, env, EMPTY);
    const path = file({});
    writeFileSync(path, `${'s'.repeat(32)}\n`);
    expect(load({ CDP_SECRET_FILE: path, CDP_SECRET: '' })).toMatchObject({
      config: { secret: 's'.repeat(32) },
      sources: { secret: 'environment' },
    });
    expect(() => load({ CDP_SECRET_FILE: path, CDP_SECRET: 's'.repeat(32) })).toThrow(
      /^CDP_SECRET and CDP_SECRET_FILE are both set/,
    );
    expect(() => load({ DATABASE_URL_FILE: '/nonexistent' })).toThrow(/^DATABASE_URL_FILE: .*\/nonexistent/);
    writeFileSync(path, 'short\n');
    expect(() => load({ CDP_SECRET_FILE: path })).toThrow(/^CDP_SECRET_FILE: must have at least 32 characters$/);
    expect(load({ CDP_PORT_FILE: path }).config.port).toBe(SETTINGS.port.default);
  });

  it('settings that contradict each other', () => {
    const load = (flags: Record<string, string>) => () => loadConfig(flags, {}, EMPTY);
    expect(load({ 'database-url': 'postgres://u@h/d' })).toThrow(/CDP_SECRET/);
    expect(load({ 'secret-previous': 's'.repeat(32) })).toThrow(/secret-previous/);
    expect(load({ 'project-running': '4', 'project-reserved': '4' })).toThrow(/less than project-running/);
    expect(load({ 'jwt-issuer': 'i', 'jwt-audience': 'a' })).toThrow(/or none/);
    expect(load({ 'tls-cert': '/c.pem' })).toThrow(/Set both tls-cert and tls-key/);
    expect(load({ 'pg-port': '0', host: '0.0.0.0' })).toThrow(/set tls-cert and tls-key .* on 0\.0\.0\.0/);
    expect(load({ 'pg-port': '0', host: '0.0.0.0', 'pg-plain': 'true' })).not.toThrow();
    expect(load({ 'pg-port': '0', host: '0.0.0.0', 'pg-host': '127.0.0.1' })).not.toThrow();
  });

  it.each([
    ['is not JSON', '{"port": 1', /cannot be read/],
    ['is not an object', [1], /must contain a JSON object/],
    ['has an unknown setting', { prot: 1 }, /unknown setting "prot"/],
    ['names a setting as the program does', { dataDir: 'x' }, /unknown setting "dataDir"/],
    ['holds null', { host: null }, /"host" must be a string, a number, true or false/],
    ['holds an object', { host: {} }, /"host" must be a string, a number, true or false/],
    ['holds true where it is no response', { host: 'a', port: true }, /"port" in the settings file: must be a whole/],
  ])('a file that %s', (_what, content, message) => {
    const path = file(content);
    expect(() => loadConfig({}, {}, path)).toThrow(ConfigError);
    expect(() => loadConfig({}, {}, path)).toThrow(message);
  });

  it('a file that was asked for but does not exist', () => {
    expect(() => loadConfig({}, {}, join(folder, 'missing.json'))).toThrow(/missing\.json cannot be read/);
  });
});
