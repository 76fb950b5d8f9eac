/** Asks for confirmation before an irreversible action. */
import { createInterface } from 'node:readline/promises';
import { UsageError } from './exit.js';

/**
 * A person has to type the name again; a script needs --yes.
 * @param what the action, as the beginning of a sentence: `Deleting "shop"`
 */
export async function confirm(name: string, what: string): Promise<void> {
  if (!process.stdin.isTTY) {
    throw new UsageError(`${what} cannot be undone. Without a terminal it needs --yes`);
  }
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const left = new Promise<string>((resolve) => terminal.once('close', () => resolve('')).once('SIGINT', resolve));
  try {
    const question = `${what} cannot be undone. Type its name to confirm: `;
    const typed = await Promise.race([terminal.question(question), left]);
    if (typed !== name) throw new Error('Nothing was deleted, because the name was not typed');
  } finally {
    terminal.close();
  }
}
