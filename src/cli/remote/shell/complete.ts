/** What could stand where the cursor is: commands, tables where tables stand, columns of the tables that are named, words. */
import type { Table } from '../../../contract/wire/tables.js';
import { printable } from '../terminal-text.js';
import { KEYWORDS, RESERVED } from './keywords.js';

type TableNames = readonly Pick<Table, 'name' | 'columns'>[];

export interface Surroundings {
  tables: TableNames;
  /** Of the statement, the lines above this one. */
  above: string;
  commands: readonly string[];
  /** Paths that a file's name could go on to. */
  files: (beginning: string) => Promise<string[]>;
}

const COMMAND = /^\s*\\\S*$/;
const COMMAND_OF_TABLE = /^\s*\\d[a-z]*\+?\s+(\S*)$/;
const COMMAND_OF_FILE = /^\s*\\(?:i|ir|include|o)\s+(\S*)$/;
/** The word that is typed: a name after `table.`, or a name, perhaps in a quote that is open. */
const WORD = /(?:("(?:[^"]|"")+"|[\p{L}_][\p{L}\p{N}_$]*)\.)?("(?:[^"]|"")*|[\p{L}_][\p{L}\p{N}_$]*|)$/u;
const AFTER_TABLE_WORD =
  /\b(?:from|join|into|update|table|truncate|view|references|analyze|vacuum)\s+(?:only\s+|if\s+exists\s+)?$/i;
/** In a list behind FROM. */
const AFTER_COMMA = /\bfrom\s[^()]*,\s*$/i;
const CLAUSE = /\b(?:where|group|order|having|limit|select|set|on|values|returning)\b/i;
/** Tables that a statement names, with their aliases. */
const NAMED =
  /\b(?:from|join|into|update|,)\s*("(?:[^"]|"")+"|[\p{L}_][\p{L}\p{N}_$]*)(?:\s+(?:as\s+)?("(?:[^"]|"")+"|[\p{L}_][\p{L}\p{N}_$]*))?/giu;

/** @returns what could stand there, and what of the line it takes the place of */
export async function complete(line: string, surroundings: Surroundings): Promise<[string[], string]> {
  const { tables, above, commands, files } = surroundings;
  if (above === '' && COMMAND.test(line)) return choices(commands, line.trimStart());
  const ofTable = COMMAND_OF_TABLE.exec(line)?.[1];
  if (above === '' && ofTable !== undefined) return choices(namesOf(tables), ofTable);
  const ofFile = COMMAND_OF_FILE.exec(line)?.[1];
  if (above === '' && ofFile !== undefined) return [await files(ofFile), ofFile];

  const [, qualifier, word = ''] = WORD.exec(line) ?? [];
  const before = `${above}\n${line.slice(0, line.length - word.length)}`;
  const named = namedTables(`${above}\n${line}`, tables);
  if (qualifier !== undefined) {
    const table = named.get(unquoted(qualifier)) ?? tables.find(({ name }) => name === unquoted(qualifier));
    return choices(namesOf(table?.columns ?? []), word);
  }
  const isInFrom = AFTER_COMMA.test(before) && !CLAUSE.test(before.slice(before.search(/\bfrom\s[^]*$/i)));
  if (AFTER_TABLE_WORD.test(before) || isInFrom) return choices(namesOf(tables), word);
  if (word === '') return [[], ''];
  const ofNamed = [...new Set(named.values())].flatMap(({ columns }) => namesOf(columns));
  const columns = ofNamed.length > 0 ? ofNamed : tables.flatMap(({ columns: all }) => namesOf(all));
  const names = [...columns, ...namesOf(tables), ...named.keys()];
  const isLower = word === word.toLowerCase();
  const words = KEYWORDS.map((keyword) => (isLower ? keyword.toLowerCase() : keyword));
  // A column "select" would be in the way of the word.
  return choices([...names.filter((name) => !RESERVED.has(name.slice(1, -1)) || word.startsWith('"')), ...words], word);
}

/** A single one is done with, so a space follows. */
function choices(all: readonly string[], beginning: string): [string[], string] {
  const wanted = beginning.replace(/^"/, '').toLowerCase();
  const isQuoted = beginning.startsWith('"');
  const hits = [...new Set(all)].filter((choice) => {
    if (isQuoted && !choice.startsWith('"')) return false;
    return choice.replace(/^"/, '').toLowerCase().startsWith(wanted);
  });
  const [only] = hits;
  return [hits.length === 1 && only !== undefined ? [`${only} `] : hits.sort(), beginning];
}

/** As they are written in SQL. A name that a terminal would obey is none to be typed. */
const namesOf = (named: readonly { name: string }[]): string[] =>
  named.filter(({ name }) => printable(name) === name).map(({ name }) => quoted(name));

const quoted = (name: string): string =>
  /^[a-z_][a-z0-9_$]*$/.test(name) && !RESERVED.has(name) ? name : `"${name.replaceAll('"', '""')}"`;

const unquoted = (written: string): string =>
  written.startsWith('"') ? written.slice(1, -1).replaceAll('""', '"') : written.toLowerCase();

/** By alias, or by name where there is none. */
function namedTables(statement: string, tables: TableNames): Map<string, TableNames[number]> {
  const named = new Map<string, TableNames[number]>();
  for (const [, name = '', alias] of statement.matchAll(NAMED)) {
    const table = tables.find((candidate) => candidate.name === unquoted(name));
    if (table === undefined) continue;
    const isAlias = alias !== undefined && !RESERVED.has(alias.toLowerCase()) && !/^(set|values)$/i.test(alias);
    named.set(isAlias ? unquoted(alias) : table.name, table);
  }
  return named;
}
