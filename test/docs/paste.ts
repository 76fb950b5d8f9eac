/** The commands of a page, pasted in order into one shell, and what the page shows of each. */
import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { expect } from 'vitest';
import { type Block, blocks } from './markdown.js';

export interface Step extends Block {
  /** What the page shows: standard output, and the other one where the text says so. */
  readonly shown: string | undefined;
  readonly said: string | undefined;
}

export function steps(markdown: string): Step[] {
  const all = blocks(markdown);
  return all.flatMap((block, i) => {
    if (block.language !== 'sh') return [];
    const [first, second] = [all[i + 1], all[i + 2]];
    const shown = first?.language === 'text' ? first.text : undefined;
    const isSaid = second?.language === 'text' && second.before.includes('on standard error');
    return [{ ...block, shown, said: isSaid ? second.text : undefined }];
  });
}

const END = '<<<>>>';

/**
 * Each step ends as the page says, with exit code 0 if it says nothing, and prints what it shows.
 * @param comparable what remains of an output without what differs from run to run
 * @param port that of the service, which the page calls 8080
 */
export async function expectPasted(
  run: readonly Step[],
  comparable: (output: string) => string,
  { port, cwd, env }: { port: number; cwd: string; env: Record<string, string | undefined> },
): Promise<void> {
  // One shell for all, which says after each block how it ended.
  const script = run.map(({ text }) => `${text}echo "${END} $?"\necho "${END}" >&2\n`).join('');
  const shell = spawn('sh', ['-c', script.replaceAll(':8080', `:${port}`)], {
    cwd,
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
}
