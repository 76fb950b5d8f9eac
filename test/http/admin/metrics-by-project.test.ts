/** Metrics of each project, for operators who enable them. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../support/program.js';
import { startTestService, type TestProject, type TestService } from '../../support/service.js';
import { BY_ITSELF } from '../../../src/contract/audit.js';

let service: TestService;
let shop: TestProject;
beforeAll(async () => {
  const settings = { 'metrics-by-project': 'true', 'project-running': '2', 'project-reserved': '1' };
  service = await startTestService(settings);
  shop = await service.project('shop');
});
afterAll(() => service.close());

/** What there is by project, as lines without the prefix of all their names: `requests_total{…} 1`. */
async function lines(project: string): Promise<string[]> {
  const { text } = await service.call('GET', '/metrics');
  return Array.from(text.matchAll(/^cdp_project_(\w+\{.*)$/gm), ([, line]) => line ?? '').filter((line) =>
    line.includes(`project="${project}"`),
  );
}

const load = (project: string, kind: string, running: number, waiting: number) => [
  `requests_running{project="${project}",class="${kind}"} ${running}`,
  `requests_waiting{project="${project}",class="${kind}"} ${waiting}`,
];

const idle = (project: string) => ['sql', 'typed'].flatMap((kind) => load(project, kind, 0, 0));

describe('metrics by project', () => {
  it('count requests with its tokens, including refused ones, and what it has stored', async () => {
    await shop.table('orders', { n: 'INTEGER' });
    for (const body of [[{ n: 1 }, { n: 2 }], [{ n: 3 }], [{ n: 'x' }]]) {
      await shop.call('POST', '/api/cdp/data/orders', { body });
    }
    const reader = await shop.tokenWith('schema:read');
    await service.call('POST', '/api/cdp/sql', { token: reader, body: { sql: 'SELECT 1' } });
    await service.call('GET', '/api/cdp/schema', { token: 'wrong' });
    const expected = [
      'inserted_rows_total{project="shop"} 3',
      'requests_total{project="shop",code=""} 3',
      'requests_total{project="shop",code="insufficient_scope"} 1',
      'requests_total{project="shop",code="invalid_value"} 1',
      ...idle('shop'),
    ];
    // A request is counted, and its place given back, behind its response.
    await eventually('all are counted', async () => same(await lines('shop'), expected));
  });

  it('exist for a project that has not been used yet', async () => {
    await service.project('unused');
    expect((await lines('unused')).sort()).toEqual(
      ['inserted_rows_total{project="unused"} 0', ...idle('unused')].sort(),
    );
  });

  it('show the number of running and waiting requests', async () => {
    const busy = await service.project('busy');
    const leave = new AbortController();
    const sql = { body: { sql: 'SELECT pg_sleep(60)', timeout_ms: 60_000 }, signal: leave.signal };
    const asleep = [1, 2, 3].map(() => busy.call('POST', '/api/cdp/sql', sql).catch(() => 'left'));
    const expected = load('busy', 'sql', 1, 2);
    await eventually('they are seen', async () => {
      const seen = await lines('busy');
      return expected.every((line) => seen.includes(line));
    });
    expect(await lines('shop')).toEqual(expect.arrayContaining(idle('shop')));
    leave.abort();
    expect(await Promise.all(asleep)).toEqual(['left', 'left', 'left']);
    await eventually('none is left', async () => {
      const seen = await lines('busy');
      return idle('busy').every((line) => seen.includes(line));
    });
  });

  it('end with the project, wherever it is deleted, and start again with another of its name', async () => {
    const first = await service.project('passing');
    await first.rows('SELECT 1');
    const used = 'requests_total{project="passing",code=""} 1';
    await eventually('it is counted', async () => (await lines('passing')).includes(used));
    // As another instance does it, of which this one is not told.
    await service.engine.projects.delete('passing', BY_ITSELF);
    expect(await lines('passing')).toEqual([]);
    await service.project('passing');
    expect((await lines('passing')).sort()).toEqual(
      ['inserted_rows_total{project="passing"} 0', ...idle('passing')].sort(),
    );
  });
});

const same = (a: readonly string[], b: readonly string[]) =>
  JSON.stringify(a.toSorted()) === JSON.stringify(b.toSorted());
