/**
 * The commands of docs/tutorial.md, pasted in order into a shell in an empty folder with the packed package, print what
 * the page shows.
 */
import { spawn } from 'node:child_process';
import { mkdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, expect, it } from 'vitest';
import { installPackage } from '../support/package.js';
import { endEverything, freePort, projectRoot, startServe } from '../support/program.js';
import { type Block, blocks, read } from './markdown.js';

afterAll(endEverything);

/** What differs from run to run. */
const comparable = (output: string): string =>
  output
    .replace(/\S*profiles\.json/, '<file>')
    .replace(/\d+\.\d s, [\d,]+ rows\/s/g, '<time>')
    .replace(/~\d+/g, '<about>')
    .replace(/ +$/gm, '')
    .trimEnd();

interface Step extends Block {
  /** What the page shows: standard output, and the other one where the text says so. */
  shown: string | undefined;
  said: string | undefined;
}

function steps(markdown: string): Step[] {
  const all = blocks(markdown);
  return all.flatMap((block, i) => {
    if (block.language !== 'sh') return [];
    const [first, second] = [all[i + 1], all[i + 2]];
    const shown = first?.language === 'text' ? first.text : undefined;
    const isSaid = second?.language === 'text' && second.before.includes('on standard error');
    return [{ ...block, shown, said: isSaid ? second.text : undefined }];
  });
}

it('docs/tutorial.md works with the package alone, and prints what the page shows', { timeout: 240_000 }, async () => {
  const { folder } = await installPackage();
  await symlink(join(projectRoot, 'node_modules/vega-datasets'), join(folder, 'node_modules/vega-datasets'), 'dir');
  await mkdir(join(folder, 'home'), { mode: 0o755 });
  const page = read('docs/tutorial.md');
  const port = await freePort();
  const env = { PATH: process.env.PATH, HOME: join(folder, 'home') };
  const END = '<<<>>>';
  const script: string[] = [];
  const run: Step[] = [];
  for (const step of steps(page)) {
    if (step.text.includes('npm install') || step.text.includes('cdp-data-engine serve')) continue;
    // One shell for all, which says after each block how it ended.
    script.push(`${step.text}echo "${END} $?"\necho "${END}" >&2\n`);
    run.push(step);
  }
  await symlink('node_modules/vega-datasets/data', join(folder, 'data'));
  await startServe(['--port', String(port), '--data-dir', join(folder, '.cdp')], {
    program: join(folder, 'node_modules/cdp-data-engine'),
    cwd: folder,
  });
  const shell = spawn('sh', ['-c', script.join('').replaceAll(':8080', `:${port}`)], {
    cwd: folder,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [stdout, stderr] = await Promise.all([text(shell.stdout), text(shell.stderr)]);
  const output = stdout.replaceAll(`:${port}`, ':8080').split(END);
  const errors = stderr.split(END);
  for (const [i, { line, before, shown, said }] of run.entries()) {
    const ended = /^ (\d+)/.exec(output[i + 1] ?? '')?.[1];
    expect(ended, `line ${line}: ${errors[i]}`).toBe(/exit code is `(\d+)`/.exec(before)?.[1] ?? '0');
    const printed = (output[i] ?? '').replace(/^ \d+\n/, '');
    if (shown !== undefined) expect(comparable(printed), `line ${line}: ${errors[i]}`).toBe(comparable(shown));
    if (said !== undefined) expect(comparable(errors[i]?.trimStart() ?? ''), `line ${line}`).toBe(comparable(said));
  }
  expect(run.filter(({ shown }) => shown !== undefined).length).toBeGreaterThan(12);
});
