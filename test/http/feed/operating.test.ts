/** What operators see of feeds: metrics, the log of the service, the audit log, and what a plan of a move says. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startAddedServer, variableWith } from '../../support/added-server.js';
import { readChanges, withFeed } from '../../support/feed.js';
import { eventually } from '../../support/program.js';
import { inProject, startOwnService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;
beforeAll(async () => {
  service = await startOwnService();
  project = await service.project();
  await project.rows('CREATE TABLE kept (id int PRIMARY KEY)');
  project = await withFeed(project);
});
afterAll(() => service.close());

const metric = async (name: string): Promise<number> => {
  const { text } = await service.call('GET', '/metrics');
  const line = text.split('\n').find((one) => one.startsWith(`${name} `));
  return Number(line?.split(' ')[1]);
};

it('the server keeps WAL while a transaction stays open, which a metric says', async () => {
  await service.engine.feeds.watch();
  expect(await metric('cdp_feeds{status="reading"}')).toBe(1);
  expect(await metric('cdp_feed_slots{wal_status="reserved"}')).toBe(1);
  const { placement } = await service.engine.projects.get(project.name);
  await inProject(service, placement, async (client) => {
    const folder = await service.engine.servers.tenancyOf(placement).files?.folderOf(placement.server);
    // A setting of the operator's own.
    await writeFile(join(folder?.root ?? '', 'local.conf'), 'max_wal_size = 2MB\n');
    await client.query('SELECT pg_reload_conf()');
    await client.query('BEGIN');
    await client.query('INSERT INTO data.kept VALUES (0)');
    for (let n = 1; n <= 3; n++)
      await project.rows(`INSERT INTO kept SELECT generate_series(${n * 50_000}, ${n * 50_000 + 49_999})`);
    await service.engine.feeds.watch();
    expect(await metric('cdp_feed_slots{wal_status="reserved"}')).toBe(0);
    expect(await metric('cdp_feed_slots{wal_status="extended"}')).toBe(1);
    expect(await metric('cdp_feed_wal_bytes')).toBeGreaterThan(2 * 1024 * 1024);
    await client.query('COMMIT');
  });
  await eventually('the WAL is let go', async () => {
    await inProject(service, placement, (client) => client.query('CHECKPOINT'));
    await service.engine.feeds.watch();
    return (await metric('cdp_feed_slots{wal_status="reserved"}')) === 1;
  });
});

it('turning it on and off, and what is read of it, are in the audit log', async () => {
  await project.call('GET', '/api/cdp/changes/snapshot?table=kept');
  await readChanges(project);
  await eventually('all are written', async () => {
    await service.engine.audit.flush();
    const entries = await service.engine.audit.read({ project: project.name, limit: 100 });
    const found = new Set(entries.map(({ operation, outcome }) => `${operation} ${outcome}`));
    return ['set_feed ok', 'read_snapshot ok', 'read_changes ok'].every((one) => found.has(one));
  });
});

it('a plan of a move names the feed as an obstacle', async () => {
  const added = await startAddedServer();
  const { token } = await service.engine.tokens.create(null);
  const body = { name: 'eu-1', url_reference: `env:${variableWith(added.url)}` };
  expect((await service.call('POST', '/api/cdp/admin/servers', { token, body })).status).toBe(201);
  const plan = await service.call('GET', `/api/cdp/admin/projects/${project.name}/move?to=eu-1`, { token });
  expect(plan.body.obstacles).toContain(
    'it has a feed of changes, which needs a server of its own: turn it off (DELETE /api/cdp/feed)',
  );
  await added.close();
});
