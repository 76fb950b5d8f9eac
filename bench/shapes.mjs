/**
 * Compares batches of many shapes with binary COPY of the same rows, to find shapes that are much slower than others:
 * `node bench/shapes.mjs [NAMES] [--seconds N] [--rounds N] [--connections N] [--before DIST]`. For each shape it
 * prints the CPU time of a record, the share of it that COPY takes, and how the rows went into Postgres; the worst come
 * last. It checks all rows afterward. With the `dist` of another version of the project, it measures both in turn.
 */
import { parseArgs } from 'node:util';
import { build } from '../scripts/build.mjs';
import { machine } from './cpu.mjs';
import { table } from './report.mjs';
import { interleave, median } from './rounds.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seconds: { type: 'string', default: '1' },
    rounds: { type: 'string', default: '3' },
    connections: { type: 'string', default: '8' },
    before: { type: 'string' },
  },
});
const connections = Number(values.connections);

build();
const { House } = await import('./house.mjs');
const { SHAPES } = await import('./shapes/shapes.mjs');
const { ShapeWork } = await import('./shapes/work.mjs');

const chosen = Object.entries(SHAPES).filter(([name]) => positionals.length === 0 || positionals.includes(name));
if (chosen.length === 0) throw new Error(`The shapes are ${Object.keys(SHAPES).join(', ')}`);

const options = {
  seconds: Number(values.seconds),
  rounds: Number(values.rounds),
  before: values.before,
};
const house = new House({ ...options, profile: false, postgrest: false });
const stopped = new Promise((_, reject) => {
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => reject(new Error(`stopped by ${signal}`)));
});
try {
  await Promise.race([stopped, measure()]);
} finally {
  await house.close();
}

async function measure() {
  await house.open();
  const found = [];
  for (const [index, [name, shape]] of chosen.entries()) {
    process.stderr.write(`${name} …\n`);
    const work = new ShapeWork(`shape_${index}`, shape, connections);
    const measured = await interleave(house, Object.values(house.targets), work);
    for (const { database } of Object.values(house.targets)) await database.drop(work.table);
    found.push(rowOf(name, work, measured));
    process.stderr.write(`${found.at(-1).cells.join(' | ')}\n`);
  }
  const rows = found.sort((a, b) => b.share - a.share);
  const head = [
    'shape',
    'records',
    'bytes',
    'raw',
    'before',
    'Postgres + service',
    'of raw, CPU',
    'of raw, speed',
    'ways',
  ];
  process.stdout.write(`\n${machine()}; ${options.rounds} rounds of ${options.seconds} s; µs of CPU a record\n\n`);
  process.stdout.write(`${table(head, rows.map(({ cells }) => cells))}\n`); // prettier-ignore
}

function rowOf(name, work, { raw, service, before }) {
  const of = (list, key) => median(list.map((one) => one[key]));
  const both = (list) => `${of(list, 'postgresCpu').toFixed(1)} + ${of(list, 'serverCpu').toFixed(1)}`;
  const shares = service.map((one, round) => raw[round].postgresCpu / (one.postgresCpu + one.serverCpu));
  const speeds = service.map((one, round) => one.perSecond / raw[round].perSecond);
  const share = median(shares);
  const ways = [...work.ways].join(', ');
  const figures = [of(raw, 'postgresCpu').toFixed(1), before === undefined ? '' : both(before), both(service)];
  const cells = [name, work.recordsPerBatch, work.bytesPerRecord.toFixed(0), ...figures];
  return { share, cells: [...cells.map(String), share.toFixed(2), median(speeds).toFixed(2), ways] };
}
