/** The feed of a project that is restored: it begins anew before the first write, and old cursors say so. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { backup } from '../../src/backup/backup.js';
import { restore } from '../../src/backup/restore.js';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { changesUntilNow, readChanges, withFeed, words } from '../support/feed.js';
import { makeFolder } from '../support/folder.js';
import { expectFailure, startOwnService, type TestService } from '../support/service.js';

const folder = makeFolder('cdp-feed-');
let service: TestService;
beforeAll(async () => {
  service = await startOwnService();
});
afterAll(async () => {
  await service.close();
  rmSync(folder, { recursive: true, force: true });
});

const signal = new AbortController().signal;
const common = { programSearch: { folder: null, path: '' }, signal, progress: () => undefined };

it('a restore keeps the feed, whose changes go on from the restored rows', async () => {
  const project = await withFeed(await service.project());
  await project.rows('CREATE TABLE kept (id int PRIMARY KEY); INSERT INTO kept VALUES (1)');
  const { cursor } = await readChanges(project);
  const services = service.engine.backupServices(BY_ITSELF);
  const file = join(folder, 'one.cdp');
  await backup(services, { ...common, file, projectName: project.name, form: null, jobs: 1 });
  await project.rows('INSERT INTO kept VALUES (2)');
  const as = `${project.name}-restored`;
  await restore(services, {
    ...common,
    file,
    projectName: project.name,
    as,
    at: null,
    missing: false,
    placementRequest: {},
  });
  const restored = await service.found(as);
  // The first request of all is a write.
  await restored.rows('INSERT INTO kept VALUES (3)');
  const gone = expectFailure(await restored.call('GET', `/api/cdp/changes?after=${cursor}`), 410, 'cursor_expired');
  const start = /is after (\S+)\./.exec(gone.hint ?? '')?.[1] ?? '';
  const changes = await changesUntilNow(restored, start);
  expect(words(changes.filter(({ op }) => op !== 'schema'))).toEqual(['insert kept']);
  expect(changes.at(-1)).toMatchObject({ key: { id: 3 } });
  const snapshot = await restored.call('GET', '/api/cdp/changes/snapshot?table=kept');
  expect(snapshot.text.trimEnd().split('\n')).toHaveLength(4);
});
