/** Performing what a line holds, and the lines of a file one after the other. */
import { readFile } from 'node:fs/promises';
import { Ending, EXIT, UsageError } from '../outcome.js';
import { runCommand, type Shell } from './commands.js';
import { type Part, StatementScanner } from './scanner.js';

/** Files that include one another without an end are wrong. */
const DEPTH = 16;

export const perform = (shell: Shell, part: Part): Promise<void> =>
  part.kind === 'statement' ? shell.session.run(part.sql) : runCommand(shell, part.text);

/**
 * The last statement needs no semicolon. `\q` ends the file alone.
 * @throws Ending with file and line at the first failure: what follows may rest on it
 */
export async function includeFile(shell: Shell, file: string, depth = 1): Promise<void> {
  if (depth > DEPTH) throw new UsageError(`More than ${DEPTH} files include one another`);
  const scanner = new StatementScanner();
  let isLeft = false;
  const inner: Shell = {
    ...shell,
    scanner,
    include: (next) => includeFile(inner, next, depth + 1),
    leave: () => void (isLeft = true),
  };
  const lines = (await readFile(file, 'utf8')).replace(/^\uFEFF/, '').split(/\r?\n/);
  const performAll = async (parts: readonly Part[], line: number): Promise<void> => {
    try {
      for (const part of parts) await perform(inner, part);
    } catch (cause) {
      throw new Ending(EXIT.refused, `${file}, line ${line}`, cause);
    }
  };
  for (const [i, line] of lines.entries()) {
    await performAll(scanner.line(line), i + 1);
    if (isLeft) return;
  }
  const rest = scanner.rest();
  if (rest !== undefined) await performAll([{ kind: 'statement', sql: rest }], lines.length);
}
