/** Which connections to projects are kept where there are more projects than connections. */
import { expect, it } from 'vitest';
import { embeddedServer } from '../../support/postgres.js';
import { onServer, startTestService, type TestProject } from '../../support/service.js';

const PROJECTS = 7;
const CONNECTIONS = 5;

it('protects those of most projects where more are written to in turn than there are connections', async () => {
  const service = await startTestService({ 'max-connections': String(CONNECTIONS) });
  try {
    const projects: TestProject[] = [];
    for (let i = 0; i < PROJECTS; i++) projects.push(await service.project());
    for (const project of projects) await project.table('t', { n: 'INTEGER' });
    const databases = await Promise.all(
      projects.map(async ({ name }) => (await service.engine.projects.get(name)).placement.database),
    );
    const writeToAll = async () => {
      for (const project of projects) {
        const { status } = await project.call('POST', '/api/cdp/data/t', { body: [{ n: 1 }] });
        expect(status).toBe(201);
      }
    };
    const processes = async () => {
      const { rows } = await onServer(embeddedServer(), (client) =>
        client.query<{ pid: number }>('SELECT pid FROM pg_stat_activity WHERE datname = ANY ($1) AND usename ~ $2', [
          databases,
          '^w_',
        ]),
      );
      return rows.map(({ pid }) => pid);
    };

    await writeToAll();
    await writeToAll();
    const before = await processes();
    await writeToAll();
    const kept = (await processes()).filter((pid) => before.includes(pid));
    // One of them makes room for those that have none.
    expect(kept.length).toBeGreaterThanOrEqual(CONNECTIONS - 1);
    expect((await processes()).length).toBeLessThanOrEqual(CONNECTIONS + 1);
  } finally {
    await service.close();
  }
});
