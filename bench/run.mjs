/**
 * The benchmark: the project, raw wire and PostgREST on one Postgres, interleaved. Prints a table, and exits with 1 if
 * anything failed: a request, a check, a start. Missed goals are shown but do not count as failures.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { build } from '../scripts/build.mjs';
import { loadAverage, machine } from './cpu.mjs';
import { HELP, readOptions } from './options.mjs';
import { summary } from './profile.mjs';
import { beforeTable, cpuTable, factsTable, naiveTable, ratiosTable } from './report.mjs';

const say = (text) => process.stderr.write(`${text}\n`);

async function main() {
  const options = readOptions(process.argv.slice(2));
  if (options.help) return void process.stdout.write(HELP);
  build();
  install();
  // Modules that need dist, or what was just installed, can be loaded only now.
  const { House } = await import('./house.mjs');
  const { chosenWorks } = await import('./works/index.mjs');
  const works = chosenWorks(options.only);

  const house = new House(options);
  const stopped = new Promise((_, reject) => {
    for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => reject(new Error(`stopped by ${signal}`)));
  });
  try {
    await Promise.race([stopped, measure(house, works, options)]);
  } finally {
    await house.close();
  }
}

/** PostgREST, which the project itself does not depend on. */
function install() {
  if (existsSync(join(import.meta.dirname, 'node_modules'))) return;
  say('Installing PostgREST …');
  const { status } = spawnSync('npm', ['ci', '--silent'], { cwd: import.meta.dirname, stdio: ['ignore', 2, 2] });
  if (status !== 0) throw new Error('PostgREST could not be installed');
}

async function measure(house, works, { seconds, rounds, naive, before }) {
  const load = loadAverage();
  await house.open();
  const rows = [];
  const facts = [];
  for (const work of works) {
    say(`${work.name} …`);
    const result = await work.run(house);
    rows.push(...(result.rows ?? []));
    facts.push(...(result.facts ?? []));
    if (house.profiles !== null) showProfile(house.profiles);
  }
  const parts = [
    `${machine()}; ${rounds} rounds of ${seconds} s; load average before ${load}, after ${loadAverage()}`,
    ...(rows.length === 0 ? [] : [ratiosTable(rows), cpuTable(rows)]),
    ...(rows.length > 0 && naive ? [naiveTable(rows)] : []),
    ...(rows.length > 0 && before !== undefined ? [beforeTable(rows)] : []),
    ...(facts.length === 0 ? [] : [factsTable(facts)]),
  ];
  process.stdout.write(`\n${parts.join('\n\n')}\n`);
}

/** The profile of the last measurement, when everything was compiled. */
function showProfile(folder) {
  const number = (name) => Number.parseInt(name);
  const [last] = readdirSync(folder).sort((a, b) => number(b) - number(a));
  const file = join(folder, last);
  process.stdout.write(`
${file}
${summary(file)}
`);
}

main().catch((error) => {
  process.stderr.write(`bench: ${error?.stack ?? error}\n`);
  process.exitCode = 1;
});
