/** The statements that one session has prepared on its server, and the messages that run them. */
import type { Statement } from '../sql.js';
import { bind, closeStatement, execute, parse } from './messages.js';

/** So many are kept. */
const MOST = 100;

interface Prepared {
  readonly name: string;
  /** The messages that run it; null where they depend on its parameters. */
  readonly run: Buffer | null;
}

const runNamed = (name: string, params: Statement['params']): Buffer =>
  Buffer.concat([bind(params, [], name), execute()]);

export class PreparedStatements {
  /** By their text, the oldest first. */
  private readonly known = new Map<string, Prepared>();
  private count = 0;

  /** The messages that run a statement, and prepare it where that was not done before. */
  run({ text, params }: Statement): Buffer[] {
    const known = this.known.get(text);
    if (known !== undefined) return [known.run ?? runNamed(known.name, params)];
    const [oldest] = this.known.size >= MOST ? this.known.keys() : [];
    const closing = oldest === undefined ? [] : this.forget(oldest);
    const name = `s${++this.count}`;
    const run = runNamed(name, params);
    this.known.set(text, { name, run: params.length === 0 ? run : null });
    return [...closing, parse(text, name), run];
  }

  /**
   * @returns the messages that close them on the server. After an error nobody knows which of them it has prepared;
   * closing one that it has not does no harm.
   */
  forget(...texts: readonly string[]): Buffer[] {
    return texts.flatMap((text) => {
      const known = this.known.get(text);
      this.known.delete(text);
      return known === undefined ? [] : [closeStatement(known.name)];
    });
  }

  /** The server has forgotten all of them. */
  clear(): void {
    // Clearing an empty map makes a new table for it.
    if (this.known.size > 0) this.known.clear();
  }
}
