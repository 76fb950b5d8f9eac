/** What holds as soon as the feed is on. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startOwnService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;
beforeAll(async () => {
  service = await startOwnService();
  project = await service.project();
  await project.rows('CREATE TABLE customers (id int PRIMARY KEY)');
  expect((await project.call('PUT', '/api/cdp/feed', { body: {} })).status).toBe(200);
  project = await project.seenAnew();
});
afterAll(() => service.close());

describe('a feed that was just turned on', () => {
  it('says at the beginning of a snapshot which columns are its key', async () => {
    const response = await project.call('GET', '/api/cdp/changes/snapshot?table=customers');
    expect(JSON.parse(response.text.split('\n')[0] ?? '')).toMatchObject({ table: 'customers', key: ['id'] });
  });

  it('is read with any token of the project as soon as it is on', async () => {
    const fresh = await service.project();
    await fresh.call('GET', '/api/cdp/token');
    expect((await fresh.call('PUT', '/api/cdp/feed', { body: {} })).status).toBe(200);
    expect((await fresh.call('GET', '/api/cdp/changes')).status).toBe(200);
  });

  it('has a snapshot of a table that was just made', async () => {
    for (let n = 0; n < 20; n++) {
      expect((await project.call('GET', '/api/cdp/changes')).status).toBe(200);
      await project.rows(`CREATE TABLE made_${n} (id int PRIMARY KEY)`);
      const response = await project.call('GET', `/api/cdp/changes/snapshot?table=made_${n}`);
      expect(response.text).toContain('"done":true');
    }
  });
});
