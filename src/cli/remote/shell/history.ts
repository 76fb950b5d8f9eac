/** What was typed in earlier shells: a JSON string a line, in a file of its owner's alone, without what may be a secret. */
import { appendFile, chmod, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makePrivate, stateFolder, writePrivately } from '../folders.js';

export const HISTORY_ENTRIES = 1_000;
/** Characters; what is longer was pasted. */
const LONGEST = 32 * 1024;

/** A literal beside a word for secrets; a token of ours anywhere. Too much is left out rather than too little. */
const SECRET_WORD =
  /passw|passphrase|secret|token|credential|api_?key|private_?key|crypt|pgp_|hmac|bearer|\bidentified\b/i;
const LITERAL = /'|\$\w*\$/;
const OWN_TOKEN = /cdp_[\w-]{16,}/;

export const maySpillSecret = (text: string): boolean =>
  OWN_TOKEN.test(text) || (SECRET_WORD.test(text) && LITERAL.test(text));

export class History {
  readonly #file: string;

  private constructor(
    /** The newest first. */
    readonly entries: string[],
    private isKept: boolean,
  ) {
    this.#file = historyFile();
  }

  /** @param isKept whether there is a file to it */
  static async open(isKept: boolean): Promise<History> {
    if (!isKept) return new History([], false);
    const lines = (await readHistory()).split('\n').filter((line) => line !== '');
    const entries = lines.slice(-HISTORY_ENTRIES).flatMap(entryOf).reverse();
    if (lines.length > 2 * HISTORY_ENTRIES)
      await writePrivately(historyFile(), entries.toReversed().map(lineOf).join(''));
    return new History(entries, true);
  }

  /**
   * At once, since a terminal may be closed at any time. What may be a secret is forgotten with this shell.
   * @throws where it cannot be written, once
   */
  async add(text: string): Promise<void> {
    if (text.trim() === '' || text === this.entries[0]) return;
    this.entries.unshift(text);
    if (this.entries.length > HISTORY_ENTRIES) this.entries.pop();
    if (!this.isKept || text.length > LONGEST || maySpillSecret(text)) return;
    try {
      await makePrivate(stateFolder());
      await appendFile(this.#file, lineOf(text), { mode: 0o600 });
    } catch (error) {
      this.isKept = false;
      throw error;
    }
  }
}

const historyFile = (): string => join(stateFolder(), 'sql-history');

async function readHistory(): Promise<string> {
  try {
    const text = await readFile(historyFile(), 'utf8');
    await chmod(historyFile(), 0o600);
    return text;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw error;
  }
}

const lineOf = (text: string): string => `${JSON.stringify(text)}\n`;

/** Nothing, where a line is not ours or was cut off. */
function entryOf(line: string): string[] {
  try {
    const entry: unknown = JSON.parse(line);
    return typeof entry === 'string' ? [entry] : [];
  } catch {
    return [];
  }
}
