/**
 * Reads CPU profiles of V8 and shows where the time went, by function. `node bench/profile.mjs FILE…` prints it; `node
 * bench/run.mjs --profile` records such files.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const LINES = 45;

/** Waiting, and the profiler itself at its start and end. */
const NOT_WORK = new Set(['(idle)', 'dispatch']);

/** @returns {string} the functions with the most time of their own, as shares of the time that was not idle */
export function summary(file) {
  const { nodes, samples, timeDeltas } = JSON.parse(readFileSync(file, 'utf8'));
  const byId = new Map(nodes.map((node) => [node.id, node.callFrame]));
  const own = new Map();
  let busy = 0;
  samples.forEach((id, i) => {
    const frame = byId.get(id);
    if (NOT_WORK.has(nameOf(frame))) return;
    const place = nameOf(frame);
    own.set(place, (own.get(place) ?? 0) + timeDeltas[i]);
    busy += timeDeltas[i];
  });
  const largest = [...own].sort(([, a], [, b]) => b - a).slice(0, LINES);
  const lines = largest.map(([place, time]) => `${((100 * time) / busy).toFixed(1).padStart(5)} %  ${place}`);
  return [`${(busy / 1e6).toFixed(2)} s busy; own time of functions:`, ...lines].join('\n');
}

function nameOf({ functionName, url, lineNumber }) {
  const file = url.replace(/^file:\/\//, '').replace(/^.*\/(node_modules|dist)\//, '$1/');
  return `${functionName || '(anonymous)'}${file === '' ? '' : `  ${file}:${lineNumber + 1}`}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const file of process.argv.slice(2)) process.stdout.write(`${file}\n${summary(file)}\n\n`);
}
