/** Many projects: the cost of writing to them in turn, and what an idle one costs the service. */
import { setTimeout as sleep } from 'node:timers/promises';
import { call } from '../http.mjs';
import { COMMON } from '../records.mjs';
import { ratio } from '../rounds.mjs';

const GOAL_PROJECTS = 1000;
const GOAL_RATIO = 2;
const GOAL_KIB = 32;

const TABLE = 'customers';
const RECORD = [COMMON.record(0)];

/** Minimum number of requests of a measurement. */
const REQUESTS = 500;

/** The service closes connections that were not used for a minute. */
const IDLE_MS = 90_000;

export const PROJECTS = {
  name: 'projects',
  async run(house) {
    const { service } = house.targets;
    const tokens = await makeProjects(house.service, house.options.projects);
    await service.database.client.query('CHECKPOINT'); // not to measure the creation
    const acknowledged = new Map(tokens.map((token) => [token, 0]));
    const write = async (to) => {
      const requests = to.map((token) => house.service.request(`/data/${TABLE}`, RECORD, { token }));
      const order = { connections: 1, requests, atMost: Math.max(REQUESTS, to.length), seconds: 600 };
      const measured = await house.measure(service, order, 1);
      to.forEach((token, i) => acknowledged.set(token, acknowledged.get(token) + measured.acknowledged[i]));
      return measured;
    };

    const [first] = tokens;
    await write([first]);
    const before = await house.service.ask('memory');
    const one = [];
    const all = [];
    // The first turn, and those of the option.
    for (let round = 0; round <= house.options.rounds; round++) {
      one.push(await write([first]));
      all.push(await write(tokens));
    }
    for (const [token, rows] of acknowledged) await check(house.service, token, rows);
    const connections = await idleConnections(service.database);
    const bytes = ((await house.service.ask('memory')) - before) / tokens.length;

    const times = (from, to) => ratio(all.slice(from, to), one.slice(from, to), ({ p50 }) => p50);
    const figure = ({ median, min, max }) => `${median.toFixed(2)} (${min.toFixed(2)}-${max.toFixed(2)})`;
    const later = times(1);
    const judged = (met) => (tokens.length < GOAL_PROJECTS ? null : met);
    return {
      facts: [
        {
          title: `p50 of an insert into ${tokens.length} projects in turn, times that into one`,
          figure: figure(later),
          goal: `≤ ${GOAL_RATIO} with ${GOAL_PROJECTS}`,
          met: judged(later.median <= GOAL_RATIO),
        },
        { title: 'the same the first time, which logs in', figure: figure(times(0, 1)), goal: '', met: null },
        {
          title: `an idle project costs the service (mean of ${tokens.length})`,
          figure: `${(bytes / 1024).toFixed(1)} KiB, ${connections} connections in all`,
          goal: `≤ ${GOAL_KIB} KiB, no connection`,
          met: judged(bytes <= GOAL_KIB * 1024 && connections === 0),
        },
      ],
    };
  },
};

/** @returns {Promise<string[]>} a token for each */
async function makeProjects(service, count) {
  const admin = await service.command('token', 'create', '--admin');
  const manage = (path, body) =>
    call(`${service.url}/api/cdp/admin/projects${path}`, { headers: service.headers(admin), body });
  const tokens = [];
  for (let i = 0; i < count; i++) {
    await manage('', { name: `bench-${i}` });
    const { token } = await manage(`/bench-${i}/tokens`, { name: 'bench' });
    await service.createTable(TABLE, COMMON.columns, token);
    tokens.push(token);
  }
  return tokens;
}

async function check(service, token, expected) {
  const sql = `SELECT count(*) AS rows FROM ${TABLE} WHERE profile = '${JSON.stringify(RECORD[0].profile)}'`;
  const { rows } = await service.call('/sql', { sql }, token);
  if (rows[0].rows !== expected) throw new Error(`a project has ${rows[0].rows} rows instead of ${expected}`);
}

/** @returns {Promise<number>} connections to projects that are still open after they should have been closed */
async function idleConnections(database) {
  const deadline = Date.now() + IDLE_MS;
  for (;;) {
    const [{ count }] = await database.rows(
      `SELECT count(*)::integer AS count FROM pg_stat_activity WHERE datname ~ '^d_' AND pid <> pg_backend_pid()`,
    );
    if (count === 0 || Date.now() > deadline) return count;
    await sleep(1000);
  }
}
