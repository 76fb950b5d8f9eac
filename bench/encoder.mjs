/**
 * The batch encoder alone, without HTTP and Postgres: `node bench/encoder.mjs [NAMES] [--seconds N]`. For each shape of
 * records it prints the time per record and per byte of JSON, and how many batches the encoder left to the checked
 * path. The shapes are those of the benchmark, and others that the encoder was not tuned for.
 */
import { parseArgs } from 'node:util';
import { freeBuffer } from '../dist/codec/buffers.js';
import { batchEncoder } from '../dist/codec/index.js';
import { SHAPES } from './encoder-shapes.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { seconds: { type: 'string', default: '0.5' }, text: { type: 'boolean', default: false } },
});
const names = positionals.length > 0 ? positionals : Object.keys(SHAPES);

function prepared(name) {
  const { columns, record, json = JSON.stringify, count = 250 } = SHAPES[name];
  const shapes = columns.map(({ name: column, type }) => ({
    name: column,
    type,
    sqlType: '',
    displayType: type ?? 'uuid',
    isJson: false,
    isArray: false,
    hasDefault: false,
    isId: false,
    comment: null,
  }));
  const id = { ...shapes[0], name: 'id', type: null, isId: true, hasDefault: true };
  const other = { ...shapes[0], name: 'other', type: null };
  const all = [id, ...shapes, ...(values.text ? [other] : [])];
  const encoder = batchEncoder(all, false);
  // Several bodies, so that the CPU cannot learn one by heart.
  const bodies = Array.from({ length: 8 }, (_, i) =>
    Buffer.from(json(Array.from({ length: count }, (_, n) => record(i * count + n)))),
  );
  return { name, encoder, bodies, count };
}

function run({ encoder, bodies }, milliseconds) {
  const end = performance.now() + milliseconds;
  let batches = 0;
  let refused = 0;
  const from = process.cpuUsage();
  do {
    for (const body of bodies) {
      const data = encoder.encode(body);
      if (data === null) refused++;
      else freeBuffer(data.data);
      batches++;
    }
  } while (performance.now() < end);
  const { user, system } = process.cpuUsage(from);
  return { batches, refused, micros: user + system };
}

const works = names.map(prepared);
for (const work of works) run(work, 150);
console.log('shape                      bytes/record   ns/record   ns/byte   batches left');
for (const work of works) {
  const { batches, refused, micros } = run(work, Number(values.seconds) * 1000);
  const records = batches * work.count;
  const bytes = work.bodies.reduce((sum, { length }) => sum + length, 0) / work.bodies.length / work.count;
  const nanos = (micros * 1000) / records;
  console.log(
    work.name.padEnd(26) +
      bytes.toFixed(0).padStart(13) +
      nanos.toFixed(0).padStart(12) +
      (nanos / bytes).toFixed(2).padStart(10) +
      `${((100 * refused) / batches).toFixed(0)} %`.padStart(15),
  );
}
