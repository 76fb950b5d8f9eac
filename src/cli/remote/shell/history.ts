/**
 * The history of the shell: one JSON string per line, without possible secrets, in a file that only its owner can read.
 */
import { appendFile, chmod, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isMissing, replaceFile } from '../../../files.js';
import { makePrivate, stateFolder } from '../user-files.js';

export const HISTORY_ENTRIES = 1_000;
/** In characters; longer input was pasted. */
const MAX_CHARACTERS = 32 * 1024;

/**
 * A literal next to a word for secrets, or one of our tokens anywhere. It is better to omit too much than too little.
 */
const SECRET_WORD =
  /passw|passphrase|secret|token|credential|api_?key|private_?key|crypt|pgp_|hmac|bearer|\bidentified\b/i;
const LITERAL = /'|\$\w*\$/;
const OWN_TOKEN = /cdp_[\w-]{16,}/;

const maySpillSecret = (text: string): boolean =>
  OWN_TOKEN.test(text) || (SECRET_WORD.test(text) && LITERAL.test(text));

const historyFile = (): string => join(stateFolder(), 'sql-history');

const lineOf = (text: string): string => `${JSON.stringify(text)}\n`;

/** The newest entry first. */
export async function readHistory(): Promise<string[]> {
  const file = historyFile();
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    if (isMissing(error)) return '';
    throw error;
  });
  if (text === '') return [];
  await chmod(file, 0o600);
  const lines = text.split('\n');
  const entries = lines.slice(-HISTORY_ENTRIES - 1).flatMap(entryOf);
  if (lines.length > 2 * HISTORY_ENTRIES) await replaceFile(file, entries.map(lineOf).join(''), 0o600);
  return entries.reverse();
}

/** Empty if the line is foreign or was cut off. */
function entryOf(line: string): string[] {
  try {
    const entry: unknown = JSON.parse(line);
    return typeof entry === 'string' ? [entry] : [];
  } catch {
    return [];
  }
}

/** Appends at once, since a terminal may be closed at any time. */
export async function appendHistory(text: string): Promise<void> {
  if (text.length > MAX_CHARACTERS || maySpillSecret(text)) return;
  await makePrivate(stateFolder());
  await appendFile(historyFile(), lineOf(text), { mode: 0o600 });
}
