/** Reads the questions beside this file: SQL as tools send it, and what its answer must hold. */
import { readFileSync } from 'node:fs';

export interface Question {
  /** Which tool asks, and for what. */
  readonly ask: string;
  /** Strings of the answer; `{writer}` and the like stand for the project's own names. */
  readonly shows: readonly string[];
  readonly sql: string;
}

/** @param file `psql.sql`, with `-- ask:` before each question and maybe `-- shows:` behind that */
export function questions(file: string): Question[] {
  const text = readFileSync(new URL(file, import.meta.url), 'utf8');
  return text
    .split(/^-- ask: /m)
    .slice(1)
    .map((block) => {
      const [ask = '', ...lines] = block.split('\n');
      const shows = lines[0]?.startsWith('-- shows: ') === true ? (lines.shift() ?? '').slice('-- shows: '.length) : '';
      return { ask, shows: shows === '' ? [] : shows.split(', '), sql: lines.join('\n') };
    });
}

/** The statements of a file that is run as a whole. */
export const statementsOf = (file: string): string => readFileSync(new URL(file, import.meta.url), 'utf8');
