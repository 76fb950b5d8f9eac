/** Asks for confirmation before an irreversible action. */
import { createInterface } from 'node:readline/promises';
import { UsageError } from './exit.js';

/**
 * A person has to type the name again; a script needs --yes.
 * @param what the action, as the beginning of a sentence: `Deleting "shop"`
 * @param kind what has the name
 */
export async function confirm(name: string, what: string, kind: 'project' | 'server'): Promise<void> {
  if (!process.stdin.isTTY) {
    throw new UsageError(`${what} cannot be undone. Without a terminal it needs --yes`);
  }
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const left = new Promise<string>((resolve) => terminal.once('close', () => resolve('')).once('SIGINT', resolve));
  try {
    const question = `${what} cannot be undone. Type the name of the ${kind} to confirm: `;
    const typed = await Promise.race([terminal.question(question), left]);
    if (typed !== name) throw new Error('Nothing was changed, because the name was not typed');
  } finally {
    terminal.close();
  }
}
