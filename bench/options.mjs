/** The options of the benchmark: name, default and help. */
import { parseArgs } from 'node:util';

const OPTIONS = {
  only: { type: 'string', default: '', help: 'works to run, by the beginning of their names: --only W1,W2-32' },
  seconds: { type: 'string', default: '4', help: 'length of one measurement' },
  rounds: { type: 'string', default: '5', help: 'measurements of each target, interleaved' },
  rows: { type: 'string', default: '1000000', help: 'rows that the large table of "growth" has (goal: 10000000)' },
  'stream-rows': { type: 'string', default: '1000000', help: 'rows that "stream" reads as NDJSON' },
  projects: { type: 'string', default: '20', help: 'projects that are written to in turn (goal: 1000)' },
  naive: {
    type: 'boolean',
    default: false,
    help: 'also measure 25 lines of Node that check nothing, and raw wire that prepares nothing',
  },
  before: { type: 'string', help: 'the dist of another version of the project, measured in turn with this one' },
  profile: { type: 'boolean', default: false, help: 'measure the service alone, under the CPU profiler' },
  help: { type: 'boolean', default: false, help: 'this text' },
};

/** @throws TypeError for an unknown option, Error for an invalid number */
export function readOptions(args) {
  const { values } = parseArgs({ args, options: OPTIONS, strict: true });
  const number = (name) => {
    const value = Number(values[name]);
    if (!(value > 0)) throw new Error(`--${name} must be a number above 0`);
    return value;
  };
  return {
    only: values.only.split(',').filter((name) => name !== ''),
    seconds: number('seconds'),
    rounds: number('rounds'),
    rows: number('rows'),
    streamRows: number('stream-rows'),
    projects: number('projects'),
    naive: values.naive,
    before: values.before,
    profile: values.profile,
    help: values.help,
  };
}

export const HELP = `node bench/run.mjs [options]\n\n${Object.entries(OPTIONS)
  .map(([name, { default: preset, help }]) => `  --${name.padEnd(12)} ${help}${preset ? ` (${preset})` : ''}`)
  .join('\n')}\n`;
