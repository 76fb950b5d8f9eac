/** The statements that a session has prepared on its server, and the messages that run them. */
import { randomBytes } from 'node:crypto';
import type { Statement } from './sql-tag.js';
import { bind, closeStatement, EXECUTE_ALL, parse } from './messages.js';

/**
 * Limits for the number and the texts of statements: one that names all columns of a table may have a hundred thousand
 * characters.
 */
const MAX_STATEMENTS = 100;
const MAX_CHARACTERS = 512 * 1024;

interface Prepared {
  readonly name: string;
  /** The messages that run it without parameters, kept after their first use. */
  run: Buffer | null;
}

const runNamed = (name: string, params: Statement['params']): Buffer =>
  Buffer.concat([bind(params, [], name), EXECUTE_ALL]);

export class PreparedStatements {
  /** By text, the oldest first. */
  private readonly byText = new Map<string, Prepared>();
  /**
   * A trigger that runs between two statements could replace the second by DEALLOCATE and PREPARE. So names are random,
   * and projects do not see those that begin like this in pg_prepared_statements (migration 016 of projects).
   */
  private readonly prefix = `_cdp.${randomBytes(12).toString('base64url')}`;
  private count = 0;
  /** The characters of all texts. */
  private characters = 0;

  /** @returns the messages that run a statement, preceded by those that prepare it if necessary */
  run({ text, params }: Statement): Buffer[] {
    const messages: Buffer[] = [];
    const prepared = this.byText.get(text) ?? this.prepare(text, messages);
    if (params.length === 0) messages.push((prepared.run ??= runNamed(prepared.name, params)));
    else messages.push(runNamed(prepared.name, params));
    return messages;
  }

  /** @param messages receives the messages that prepare the statement */
  private prepare(text: string, messages: Buffer[]): Prepared {
    for (const oldest of this.byText.keys()) {
      if (this.byText.size < MAX_STATEMENTS && this.characters + text.length <= MAX_CHARACTERS) break;
      messages.push(...this.forget(oldest));
    }
    const prepared = { name: `${this.prefix}${++this.count}`, run: null };
    this.byText.set(text, prepared);
    this.characters += text.length;
    messages.push(parse(text, prepared.name));
    return prepared;
  }

  /**
   * @returns the messages that close the statements on the server. After an error, some of them may not exist there;
   * closing those is harmless
   */
  forget(...texts: readonly string[]): Buffer[] {
    return texts.flatMap((text) => {
      const prepared = this.byText.get(text);
      if (prepared === undefined) return [];
      this.byText.delete(text);
      this.characters -= text.length;
      return [closeStatement(prepared.name)];
    });
  }

  /** Call this if the server has closed all of them. */
  clear(): void {
    // Clearing an empty map would allocate a new table.
    if (this.byText.size > 0) this.byText.clear();
    this.characters = 0;
  }
}
