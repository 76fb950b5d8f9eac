/**
 * A run of a segment beside its bare query, in turn: one million members, of whom 1 % change with each run. Prints the ratio of the
 * times; the goal is at most 3.
 *
 *     node bench/segments.mjs [--members N] [--rounds N]
 */
import { chmod, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { build } from '../scripts/build.mjs';
import { loadAverage, machine } from './cpu.mjs';
import { call } from './http.mjs';
import { median } from './rounds.mjs';

const { values } = parseArgs({
  options: { members: { type: 'string', default: '1000000' }, rounds: { type: 'string', default: '5' } },
});
const [members, rounds] = [values.members, values.rounds].map(Number);

/** One in so many persons is away: with each run half a percent enters, and as many leave. */
const AWAY = 202;
const persons = Math.round((members * AWAY) / (AWAY - 1));

/** An event of each person. */
const FILL = `INSERT INTO events SELECT i, 1 FROM generate_series(1, ${persons}) i`;

/** All persons but those who are away, as the table says. */
const QUERY = `SELECT person::text AS key FROM events
  WHERE person % ${AWAY} <> (SELECT n FROM away) GROUP BY person HAVING sum(total) > 2`;

async function main() {
  build();
  const { Service } = await import('./servers/service.mjs');
  const folder = await mkdtemp(join(tmpdir(), 'cdp-bench-'));
  await chmod(folder, 0o711); // Postgres may run as another user
  const service = new Service(folder);
  try {
    await service.start();
    const post = (path, body, method = 'POST') =>
      call(`${service.url}/api/cdp/${path}`, { method, headers: service.headers(), body });
    const sql = (text) => post('sql', { sql: text, timeout_ms: 60_000 });
    await sql('CREATE TABLE away AS SELECT 0 AS n; CREATE TABLE events (person bigint, total int)');
    // Three of each, so that the query has something to group.
    for (let each = 0; each < 3; each++) await sql(FILL);
    await sql('VACUUM ANALYZE events');
    const declaration = { sql: QUERY, cron: '0 0 1 1 *', timeout_ms: 3_600_000 };
    await post('segments/all', declaration, 'PUT');
    const timed = async (work) => {
      const before = performance.now();
      await work();
      return (performance.now() - before) / 1000;
    };
    /** @returns seconds, also of a run that takes longer than its request waits */
    const runOnce = async () => {
      await post('segments/all/run');
      for (;;) {
        const { segment } = await post('segments/all', undefined, 'GET');
        if (!segment.running) return segment.runs[0].duration_ms / 1000;
        await sleep(200);
      }
    };
    const first = await runOnce();
    const ratios = [];
    for (let round = 1; round <= rounds; round++) {
      await sql(`UPDATE away SET n = ${round}`);
      const bare = await timed(() => sql(`SELECT count(*) FROM (${QUERY}) q`));
      const run = await runOnce();
      ratios.push(run / bare);
      process.stderr.write(`bare query ${bare.toFixed(2)} s, run ${run.toFixed(2)} s\n`);
    }
    const { rows } = await sql(`SELECT count(*)::int AS n FROM segment_changes`);
    console.log(`${machine()}, load ${loadAverage()}`);
    console.log(
      `first run of ${members} members: ${first.toFixed(1)} s; ${rows[0].n - members} changes in ${rounds} runs`,
    );
    console.log(
      `run / bare query: median ${median(ratios).toFixed(2)} (${ratios.map((r) => r.toFixed(2)).join(', ')})`,
    );
  } finally {
    await service.remove();
  }
}

await main();
