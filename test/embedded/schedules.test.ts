/** Schedules of projects whose servers do not run. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { DetailedSchedule } from '../../src/contract/wire/schedules.js';
import { inControl } from '../support/audit.js';
import { eventually } from '../support/program.js';
import { startOwnService, type TestProject, type TestService } from '../support/service.js';

let service: TestService;
let project: TestProject;
beforeAll(async () => {
  service = await startOwnService({ 'idle-stop-ms': '1000' });
  project = await service.project();
  await project.table('t', { name: 'TEXT' });
});
afterAll(() => service.close());

const isAtRest = () => Promise.resolve(service.engine.load.runningServers === 0);

it('a run starts the idle server of its project, holds it for longer than it may idle, and lets it stop again', async () => {
  const body = { sql: "SELECT pg_sleep(2.5); INSERT INTO t (name) VALUES ('x')", cron: '0 0 1 1 *' };
  const saved = await project.call('PUT', '/api/cdp/schedules/waking', { body });
  expect(saved.status, saved.text).toBe(200);
  await eventually('the server has stopped', isAtRest);
  await inControl(service, 'UPDATE cdp.schedules SET next_at = now()');
  await eventually('the server runs', async () => !(await isAtRest()));
  await eventually('the run has ended', async () => {
    const rows = await inControl(service, 'SELECT FROM cdp.schedule_runs WHERE ended_at IS NOT NULL');
    return rows.length === 1;
  });
  await eventually('the server has stopped again', isAtRest);
  const { body: read } = await project.call('GET', '/api/cdp/schedules/waking');
  expect((read.schedule as DetailedSchedule).runs).toMatchObject([{ outcome: 'ok', rows: 1, attempts: 1 }]);
  expect(await project.rows('SELECT name FROM t')).toEqual([{ name: 'x' }]);
});
