/**
 * A primary dies or hangs and a standby is promoted: the service, which has both in its URL, continues without a
 * restart, and everything that it answered is true of the new primary.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { endEverything, eventually, type RunningService } from '../support/program.js';
import { PASSWORD } from '../support/throwaway-postgres.js';
import { startClients } from './support/clients.js';
import { type Cluster, startCluster } from './support/cluster.js';
import { UNTRUE } from './support/ledger.js';
import { createLedger, type ServerStage, serverStage } from './support/stage.js';

/** What a client may be told while there is no primary. */
const TRUE_RESPONSES = ['200', '201', 'database_unavailable', 'outcome_unknown', 'overloaded', 'request_in_flight'];

afterAll(endEverything);

it.each(['SIGKILL', 'SIGSTOP'] as const)(
  'survives %s of the primary and the promotion of the standby under load',
  async (signal) => {
    const cluster = await startCluster();
    const stage = await serverStage(cluster);
    try {
      const service = await stage.start();
      await createLedger(service.url, stage.token);
      await failOver(cluster, stage, service, signal);
      if (signal === 'SIGSTOP') await cluster.signal('SIGCONT');
      else await withFormerPrimary(cluster, stage);
      expect((await service.end()).code).toBe(0);
    } finally {
      await stage.close();
      await cluster.close();
    }
  },
);

async function failOver(cluster: Cluster, stage: ServerStage, service: RunningService, signal: 'SIGKILL' | 'SIGSTOP') {
  const { ledger, token } = stage;
  const clients = startClients({ url: () => service.url, token, ledger, count: 16 });
  const answered = (what: string, after: number, codes: readonly string[]) =>
    eventually(what, () => Promise.resolve(ledger.replies.some(({ code, at }) => at > after && codes.includes(code))));
  await eventually('inserts are answered', () => Promise.resolve((ledger.codes['201'] ?? 0) > 40));
  await cluster.signal(signal);
  await answered('its loss is told', Date.now(), ['database_unavailable', 'outcome_unknown']);
  const message = await stage.cdp('project', 'list').catch(String);
  for (const host of cluster.hosts.split(',')) expect(message).toContain(host);
  expect(message).not.toContain(PASSWORD);
  await cluster.promote();
  const promoted = Date.now();
  await answered('inserts succeed at the new primary', promoted, ['201']);
  const backMs = Date.now() - promoted;
  await clients.stop();
  const verdict = await stage.compare();
  console.log(`failover after ${signal}:`, { ...verdict, backMs }, ledger.codes);
  expect(verdict.wrong, UNTRUE).toEqual([]);
  expect(Object.keys(ledger.codes).filter((code) => !TRUE_RESPONSES.includes(code))).toEqual([]);
  expect(service.output()).not.toContain(PASSWORD);
}

/** Another instance, commands and pg_dump pass over it, though the URL names it first. */
async function withFormerPrimary(cluster: Cluster, stage: ServerStage) {
  await cluster.demote();
  const folder = await mkdtemp(join(tmpdir(), 'cdp-failover-'));
  try {
    const another = await stage.start();
    await stage.cdp('project', 'create', 'after');
    const file = join(folder, 'backup');
    await stage.cdp('backup', file);
    expect((await readFile(file)).length).toBeGreaterThan(0);
    expect((await another.end()).code).toBe(0);
  } finally {
    await rm(folder, { recursive: true });
  }
}
