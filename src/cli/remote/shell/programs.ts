/** Programs of the person's own that get the terminal for a while: the pager and the editor. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { UsageError } from '../outcome.js';

/** As less is best for tables: long lines are cut and can be scrolled to. */
const LESS = '-SX';

/** @returns whether it was shown: there may be no pager, or none may be wanted (`PAGER=`, `PAGER=cat`) */
export function page(text: string): boolean {
  const pager = process.env.PAGER ?? 'less';
  if (/^\s*(cat\s*)?$/.test(pager)) return false;
  const { status } = spawnSync(pager, {
    shell: true,
    input: text,
    stdio: ['pipe', 'inherit', 'inherit'],
    env: { LESS, ...process.env },
  });
  // So does a shell say that there is no such program, or that it may not be run.
  return status !== 127 && status !== 126;
}

/**
 * Lets the person edit a text.
 * @throws UsageError where there is no editor, or it failed
 */
export function edit(text: string): string {
  const editor = process.env.VISUAL || process.env.EDITOR || 'vi';
  const folder = mkdtempSync(join(tmpdir(), 'cdp-sql-'));
  const file = join(folder, 'statement.sql');
  try {
    writeFileSync(file, text === '' ? '' : `${text}\n`, { mode: 0o600 });
    const { status } = spawnSync(`${editor} "$CDP_SQL_FILE"`, {
      shell: true,
      stdio: 'inherit',
      env: { ...process.env, CDP_SQL_FILE: file },
    });
    if (status !== 0) throw new UsageError(`${editor} did not end well`, 'VISUAL or EDITOR says which editor it is');
    return readFileSync(file, 'utf8');
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
