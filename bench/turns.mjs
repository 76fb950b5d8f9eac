/**
 * The longest turns of the service's event loop: one request at a time, each of a kind that takes long. Prints milliseconds,
 * and what they would be on an ordinary machine, by a loop that is timed on this one. Goal there: 50 ms for bodies and
 * results up to 1 MiB, 100 ms for any.
 *
 *     node bench/turns.mjs [--only NAME,NAME] [--rounds N]
 */
import { chmod, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { build } from '../scripts/build.mjs';
import { loadAverage, machine } from './cpu.mjs';
import { COLUMNS, TURNS } from './neighbour/attacks.mjs';
import { table } from './report.mjs';

const { values } = parseArgs({
  options: { only: { type: 'string', default: '' }, rounds: { type: 'string', default: '5' } },
});

const MIB = 1024 * 1024;

/** Milliseconds of the loop below on a processor of 3.5 GHz. */
const ORDINARY_MS = 60;

/** How many times slower this machine is now. */
function slowness() {
  const from = performance.now();
  let hash = 0;
  for (let i = 0; i < 50_000_000; i++) hash = Math.imul(hash ^ i, 16_777_619);
  const ms = performance.now() - from;
  return Number.isInteger(hash) ? Math.max(1, ms / ORDINARY_MS) : NaN;
}

async function main() {
  build();
  const { Service } = await import('./servers/service.mjs');
  const folder = await mkdtemp(join(tmpdir(), 'cdp-turns-'));
  await chmod(folder, 0o711);
  const service = new Service(folder);
  const before = loadAverage();
  try {
    await service.start();
    await service.call('/sql', { sql: COLUMNS });
    const rows = [];
    const wanted = values.only.split(',').filter(Boolean);
    for (const { name, path, body, accept } of TURNS) {
      if (wanted.length > 0 && !wanted.some((part) => name.includes(part))) continue;
      const text = typeof body === 'string' ? body : JSON.stringify(body);
      const headers = { ...service.headers(), 'Content-Type': 'application/json', ...(accept && { Accept: accept }) };
      const turns = [];
      let status;
      let bytes = text.length;
      // The first request compiles what the others run.
      for (let round = -1; round < Number(values.rounds); round++) {
        await sleep(200);
        await service.ask('loopDelay');
        await sleep(50);
        try {
          const response = await fetch(`${service.url}${path}`, { method: 'POST', headers, body: text });
          bytes = Math.max(bytes, (await response.arrayBuffer()).byteLength);
          ({ status } = response);
        } catch {
          // A body that is too large is refused while it is being sent.
          status = 'refused';
        }
        await sleep(50);
        const { max } = await service.ask('loopDelay');
        if (round >= 0) turns.push(max);
      }
      const slow = slowness();
      // Whatever else runs on the machine only makes a turn longer.
      const [least] = turns.sort((a, b) => a - b);
      const ordinary = least / slow;
      const goal = bytes <= 1.1 * MIB ? 50 : 100;
      const figures = [least, turns.at(-1), ordinary].map((ms) => ms.toFixed(0));
      rows.push([
        name,
        String(status),
        (bytes / MIB).toFixed(1),
        ...figures,
        slow.toFixed(1),
        String(goal),
        ordinary <= goal ? '' : 'missed',
      ]);
      process.stderr.write(`${rows.at(-1).join(' | ')}\n`);
    }
    const head = ['request', 'status', 'MiB', 'least ms', 'most ms', 'ordinary ms', 'slowness', 'goal', ''];
    process.stdout.write(
      `\n${machine()}; load average before ${before}, after ${loadAverage()}\n\n${table(head, rows)}\n`,
    );
  } finally {
    await service.remove();
  }
}

main().catch((error) => {
  process.stderr.write(`bench: ${error?.stack ?? error}\n`);
  process.exitCode = 1;
});
