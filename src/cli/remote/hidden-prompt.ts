/** Asks for a secret: on a terminal without showing it, else from standard input. */
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { EXIT, Ending } from './outcome.js';

export async function askSecret(question: string): Promise<string> {
  if (!process.stdin.isTTY) return (await text(process.stdin)).trim();
  process.stderr.write(question);
  // The line editor writes what it reads; here it writes nowhere.
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const editor = createInterface({ input: process.stdin, output: nowhere, terminal: true });
  try {
    return await new Promise<string>((resolve, reject) => {
      editor.once('line', (line) => resolve(line.trim()));
      editor.once('SIGINT', () => reject(new Ending(EXIT.interrupted, 'Not logged in')));
      editor.once('close', () => reject(new Ending(EXIT.refused, 'Not logged in: no token was given')));
    });
  } finally {
    editor.close();
    process.stderr.write('\n');
  }
}
