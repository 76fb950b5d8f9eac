/**
 * `npm run fuzz -- [minutes] [seed]`: the properties of test/properties, and those of the fast path for batches against
 * its reference, with other random values than `npm test` has, for so many minutes (default: 5). Prints the seed; with
 * the same seed the same values come in the same order.
 */
import { startVitest } from 'vitest/node';
import { build } from './build.mjs';
import { prepare, root } from './prepare.mjs';

/** Properties in there; two files run at a time. */
const PROPERTIES = 16;

const [minutes = '5', seed = String(Math.floor(Math.random() * 2 ** 31))] = process.argv.slice(2);
if (!(Number(minutes) > 0) || !Number.isInteger(Number(seed))) {
  console.error('Usage: npm run fuzz -- [minutes] [seed]');
  process.exit(2);
}
prepare();
build();
console.log(`Seed ${seed}`);
const millisecondsEach = Math.ceil((Number(minutes) * 60_000 * 2) / PROPERTIES);
await startVitest('test', ['test/properties', 'test/codec/batch/differential'], {
  root,
  watch: false,
  provide: { fuzz: { seed: Number(seed), millisecondsEach } },
  // Time to find the smallest example that fails.
  testTimeout: millisecondsEach + 600_000,
});
