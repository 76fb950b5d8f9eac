/** The audit log while its database is away: entries wait, are written late, and are counted if there are too many. */
import { randomUUID } from 'node:crypto';
import { chmod, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { BY_ITSELF } from '../../../src/contract/audit.js';
import { Audit } from '../../../src/engine/audit/audit.js';
import { AuditRows, type AuditRow } from '../../../src/tenancy/control/audit-rows.js';
import type { Pool } from '../../../src/pg/index.js';
import { makeFolder } from '../../support/folder.js';
import { withClient } from '../../support/with-client.js';
import { startThrowaway, type ThrowawayServer } from '../../support/throwaway-postgres.js';
import { migrate, readMigrations } from '../../../src/tenancy/migrations/migrate.js';
import { servicePool } from '../../../src/tenancy/service-pool.js';

let folder: string;
let server: ThrowawayServer;
let pool: Pool;
let log: AuditRows;
let audit: Audit;
let troubles: [string, object][];

const note = (details: object, message: string) => void troubles.push([message, details]);

const start = () => startThrowaway(join(folder, 'server'));

beforeEach(async () => {
  folder = makeFolder('cdp-audit-');
  await chmod(folder, 0o711);
  server = await start();
  pool = servicePool({ ...server.connection, connectionTimeoutMillis: 5_000 }, 2);
  await pool.use((session) => migrate(session, 'cdp', readMigrations('control')));
  troubles = [];
  log = new AuditRows(pool);
  audit = new Audit(
    log,
    {
      audit: 'all',
      auditStatements: 'text',
      auditDays: 90,
      log: { info: note, warn: note, error: note },
    },
    Buffer.alloc(32),
  );
});

afterEach(async () => {
  await audit.close();
  await pool.close();
  await server.stop('fast');
  await rm(folder, { recursive: true, force: true });
});

const record = (requestId: string, statement: string | null = null) =>
  audit.record({ ...BY_ITSELF, requestId }, { operation: 'sql', outcome: 'ok', statement });

const written = () =>
  withClient(server.connection, async (client) => {
    const found = await client.query<{ request_id: string; operation: string; count: string }>(
      'SELECT * FROM cdp.audit ORDER BY at, id',
    );
    return found.rows;
  });

/** The first attempt may come before a busy server accepts connections. */
const allWritten = () =>
  expect
    .poll(async () => {
      await audit.flush();
      return audit.backlog;
    })
    .toBe(0);

describe('entries recorded while Postgres is away', () => {
  it('are written in order and once when it is back', async () => {
    const ids = Array.from({ length: 5_000 }, (_, i) => `request-${i}`);
    ids.slice(0, 10).forEach((id) => record(id));
    await audit.flush();
    await server.stop('fast');
    ids.slice(10).forEach((id) => record(id));
    await audit.flush();
    expect(audit.backlog).toBe(ids.length - 10);
    server = await start();
    await allWritten();
    expect((await written()).map((row) => row.request_id)).toEqual(ids);
    expect(audit.lost).toBe(0);
    expect(troubles.map(([message]) => message)).toEqual([
      'audit entries cannot be written',
      'audit entries can be written again',
    ]);
  });

  it('are written without another request to trigger a retry', async () => {
    await server.stop('fast');
    record('late');
    await audit.flush();
    server = await start();
    for (const until = Date.now() + 20_000; audit.backlog > 0 && Date.now() < until;)
      await new Promise((resolve) => setTimeout(resolve, 50));
    expect((await written()).map((row) => row.request_id)).toEqual(['late']);
  });

  it('are counted if memory cannot hold them, and the gap is recorded as an entry', async () => {
    await server.stop('fast');
    const text = `SELECT '${'x'.repeat(1_000_000)}'`;
    for (let i = 0; i < 30; i++) record(`request-${i}`, text);
    expect(audit.lost).toBeGreaterThan(0);
    expect(audit.backlog).toBe(30 - audit.lost);
    const { lost } = audit;
    server = await start();
    await allWritten();
    const rows = await written();
    expect(rows.filter(({ operation }) => operation === 'sql')).toHaveLength(30 - lost);
    expect(rows.at(-1)).toMatchObject({ operation: 'audit.lost', count: String(lost) });
    expect(troubles).toContainEqual(['audit entries are lost', { lost: 1 }]);
    expect(troubles.at(-1)).toEqual(['audit entries can be written again', { lost }]);
    expect(audit.lost).toBe(lost);
  });

  it('are lost on a stop that cannot write them, and the log says how many', async () => {
    await server.stop('fast');
    record('one');
    record('two');
    await audit.close();
    expect(audit.lost).toBe(2);
    expect(troubles.at(-1)).toEqual(['audit entries are lost', { lost: 2 }]);
    record('after the end');
    expect(audit.lost).toBe(3);
    server = await start();
    expect(await written()).toEqual([]);
  });
});

describe('a group of entries', () => {
  it('reads back as it was written, whatever its values', async () => {
    const plain = audit.entryOfChange(BY_ITSELF, { operation: 'repair' });
    if (plain === null) throw new Error('The audit log is off');
    const full: AuditRow = {
      at: new Date(Date.UTC(2026, 1, 3, 4, 5, 6, 789)),
      id: Number.MAX_SAFE_INTEGER,
      request_id: 'request',
      project_id: randomUUID(),
      project: 'a\tb\\c\nd\re "f"',
      actor: 'token',
      actor_id: `${'x'.repeat(19)}é`,
      actor_name: 'né 日本 😀',
      address: '::1',
      operation: 'sql',
      object: '',
      statement_sha256: 'ab'.repeat(32),
      statement: `SELECT '${'é😀x'.repeat(50_000)}\\N'`,
      rows: 2 ** 40 + 3,
      outcome: 'ok',
      status: 200,
      duration_ms: 0.07,
      count: 2 ** 33,
    };
    const old: AuditRow = { ...plain, at: new Date(Date.UTC(1969, 6, 20, 20, 17)), id: 0, rows: 0, duration_ms: 1e-7 };
    await log.write([full, plain, old]);
    expect(await log.read({ limit: 10 })).toEqual([plain, full, old].sort((a, b) => b.at.getTime() - a.at.getTime()));
  });

  it('is not written twice if its commit succeeded without a reply', async () => {
    const entry = audit.entryOfChange(BY_ITSELF, { operation: 'repair' });
    if (entry === null) throw new Error('The audit log is off');
    await log.write([entry]);
    await log.write([entry, { ...entry, id: entry.id + 1 }]);
    expect(await written()).toHaveLength(2);
  });

  it('loses only the entry that Postgres refuses', async () => {
    ['a', 'b'].forEach((id) => record(id));
    audit.record(BY_ITSELF, { operation: 'sql', outcome: 'ok', project: { id: 'no uuid', name: 'x' } });
    ['c', 'd'].forEach((id) => record(id));
    await audit.flush();
    expect((await written()).filter(({ operation }) => operation === 'sql').map((row) => row.request_id)).toEqual([
      'a',
      'b',
      'c',
      'd',
    ]);
    expect([audit.backlog, audit.lost]).toEqual([0, 1]);
  });

  it('is not written early because entries arrive during the previous write', async () => {
    const begun: number[] = [];
    const write = log.write.bind(log);
    vi.spyOn(log, 'write').mockImplementation((entries) => {
      begun.push(performance.now());
      if (begun.length < 4) record('meanwhile');
      return write(entries);
    });
    record('first');
    await vi.waitFor(() => expect(begun).toHaveLength(4), 20_000);
    for (const [i, time] of begun.slice(1).entries()) expect(time - (begun[i] as number)).toBeGreaterThan(200);
    await audit.flush();
    expect(await written()).toHaveLength(4);
  });

  it('waits for the next quarter of a second, and is then written', async () => {
    const id = randomUUID();
    record(id);
    expect(await written()).toEqual([]);
    for (const until = Date.now() + 20_000; audit.backlog > 0 && Date.now() < until;)
      await new Promise((resolve) => setTimeout(resolve, 20));
    expect((await written()).map((row) => row.request_id)).toEqual([id]);
  });
});
