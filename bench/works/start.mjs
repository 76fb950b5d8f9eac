/**
 * From the command to the first answered insert, with everything installed, built and initialized: `npm start`, and the
 * program itself. Stops the service and its Postgres, so it is the last work.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { COMMON } from '../records.mjs';
import { median } from '../rounds.mjs';
import { ROOT } from '../servers/service.mjs';

const TABLE = 'started';

const WAYS = [
  { title: 'npm start', program: 'npm', args: ['start', '--silent', '--'], goalSeconds: 2 },
  { title: 'cdp serve', program: process.execPath, args: ['dist/cli/bin.js', 'serve'], goalSeconds: 1 },
];

export const START = {
  name: 'start',
  async run({ service, targets, options }) {
    await service.createTable(TABLE, COMMON.columns);
    await targets.postgrest?.postgrest.stop();
    await service.stop();
    const facts = [];
    let inserted = 0;
    for (const { title, program, args, goalSeconds } of WAYS) {
      const times = [];
      // The first one may install and build, and is not counted.
      for (let round = -1; round < options.rounds; round++) {
        const started = performance.now();
        await service.launch(program, args, { cwd: ROOT });
        await service.call(`/data/${TABLE}`, [COMMON.record(inserted++)]);
        if (round >= 0) times.push((performance.now() - started) / 1000);
        await check(service, inserted);
        await service.stop();
        await sleep(100);
      }
      const seconds = median(times);
      facts.push({
        title: `${title}, warm, to the first answered insert`,
        figure: `${seconds.toFixed(2)} s (${Math.min(...times).toFixed(2)}-${Math.max(...times).toFixed(2)})`,
        goal: `≤ ${goalSeconds} s`,
        met: seconds <= goalSeconds,
      });
    }
    return { facts };
  },
};

async function check(service, expected) {
  const { rows } = await service.call('/sql', { sql: `SELECT count(*) AS rows FROM ${TABLE}` });
  if (rows[0].rows !== expected) throw new Error(`${rows[0].rows} rows instead of ${expected} after a start`);
}
