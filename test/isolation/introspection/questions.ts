/** Reads the files of questions in this folder: SQL as tools send it, and what its response must contain. */
import { readFileSync } from 'node:fs';

export interface Question {
  /** Which tool asks, and for what. */
  readonly ask: string;
  /** Strings of the response; `{writer}` and the like stand for the project's own names. */
  readonly shows: readonly string[];
  /**
   * Strings that only the owner of a table sees: information_schema shows constraints to nobody else (Postgres manual,
   * The Information Schema).
   */
  readonly showsOwner: readonly string[];
  readonly sql: string;
}

/**
 * @param file `psql.sql`, with `-- ask:` before each question, and behind it maybe `-- shows:` and
 * `-- shows the owner:`
 */
export function questions(file: string): Question[] {
  const text = readFileSync(new URL(file, import.meta.url), 'utf8');
  return text
    .split(/^-- ask: /m)
    .slice(1)
    .map((block) => {
      const [ask = '', ...lines] = block.split('\n');
      const list = (label: string): string[] => {
        if (lines[0]?.startsWith(label) !== true) return [];
        return (lines.shift() ?? '').slice(label.length).split(', ');
      };
      return { ask, shows: list('-- shows: '), showsOwner: list('-- shows the owner: '), sql: lines.join('\n') };
    });
}

/** The statements of a file that is run as a whole. */
export const statementsOf = (file: string): string => readFileSync(new URL(file, import.meta.url), 'utf8');
