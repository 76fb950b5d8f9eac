/** The commands of the shell that begin with a backslash, with the names that they have in psql. */
import { writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { resolve } from 'node:path';
import type { CdpClient } from '../../../client/client.js';
import { NAME_PATTERN } from '../../../contract/names.js';
import type { Table } from '../../../contract/wire/tables.js';
import { UsageError } from '../outcome.js';
import { printLines } from '../output.js';
import { columnLines, tableLines } from '../schema.js';
import type { Session } from './session.js';
import type { StatementScanner } from './scanner.js';
import { edit } from './programs.js';

/** What a command needs of the shell around it. */
export interface Shell {
  readonly session: Session;
  /** With the statement that is not at its end yet. */
  readonly scanner: StatementScanner;
  /** Runs what a file holds. */
  readonly include: (file: string) => Promise<void>;
  /** Takes a text as if it was typed. */
  readonly type: (text: string) => Promise<void>;
  readonly leave: () => void;
}

interface ShellCommand {
  readonly usage: string;
  readonly does: string;
  run(shell: Shell, argument: string): Promise<void> | void;
}

export const SHELL_COMMANDS: Readonly<Record<string, ShellCommand>> = {
  d: {
    usage: '\\d [TABLE]',
    does: 'the tables and views; the columns, indexes and constraints of one',
    run: (shell, name) => (name === '' ? showTables(shell.session) : describe(shell.session, unquoted(name))),
  },
  dt: { usage: '\\dt', does: 'the tables', run: ({ session }) => showTables(session, 'table') },
  dv: { usage: '\\dv', does: 'the views', run: ({ session }) => showTables(session, 'view') },
  e: {
    usage: '\\e',
    does: 'edit the statement, or the one before, in $EDITOR',
    run: ({ session, scanner, type }) => {
      const text = scanner.rest() ?? session.lastStatement;
      return type(session.editor.lend(() => edit(text)));
    },
  },
  g: {
    usage: '\\g',
    does: 'run the statement as ; does, or the one before again',
    run: ({ session, scanner }) => session.run(pending(session, scanner)),
  },
  gx: {
    usage: '\\gx',
    does: 'the same, with a value a line',
    run: ({ session, scanner }) => session.run(pending(session, scanner), true),
  },
  i: {
    usage: '\\i FILE',
    does: 'run the statements of a file, up to the first that fails',
    run: ({ include }, file) => include(pathOf(needed(file, '\\i'))),
  },
  o: {
    usage: '\\o [FILE]',
    does: 'write results into a file, which is emptied; back to the terminal',
    run: async ({ session }, file) => {
      if (file !== '') await writeFile(pathOf(file), '');
      session.outputFile = file === '' ? undefined : pathOf(file);
    },
  },
  p: {
    usage: '\\p',
    does: 'print the statement as it is so far',
    run: ({ scanner }) => printLines(scanner.text.trim().split('\n')),
  },
  q: { usage: '\\q', does: 'leave (Ctrl-D does, too)', run: ({ leave }) => leave() },
  r: {
    usage: '\\r',
    does: 'forget the statement that is typed (Ctrl-C does, too)',
    run: ({ scanner }) => scanner.reset(),
  },
  timing: {
    usage: '\\timing [on|off]',
    does: 'say how long statements take, until the answer is here',
    run: ({ session }, argument) => {
      session.isTimed = switched(argument, session.isTimed);
      printLines([`Timing is ${session.isTimed ? 'on' : 'off'}`]);
    },
  },
  x: {
    usage: '\\x [on|off|auto]',
    does: 'a value a line; auto: where rows are wider than the terminal',
    run: ({ session }, argument) => {
      session.expanded = argument === 'auto' ? 'auto' : switched(argument, session.expanded === true);
      const { expanded } = session;
      printLines([`Expanded display is ${expanded === 'auto' ? 'automatic' : expanded ? 'on' : 'off'}`]);
    },
  },
  '?': { usage: '\\?', does: 'this help', run: ({ session }) => session.show(help()) },
};

/** What psql has as a command, and this program in another place. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  copy: 'Outside of the shell: cdp import FILE --table T, cdp export "SELECT …" -o FILE',
  c: 'Another project has another token: cdp sql --profile NAME',
  l: 'A token opens one project: its tables are in \\d',
};

/**
 * @param text with its backslash
 * @throws UsageError where there is no such command, and whatever it fails of
 */
export async function runCommand(shell: Shell, text: string): Promise<void> {
  const [, name = '', argument = ''] = /^\\(\?|[^\s;+]*)\+?\s*([^]*)$/.exec(text) ?? [];
  const command = Object.hasOwn(SHELL_COMMANDS, name) ? SHELL_COMMANDS[name] : undefined;
  if (command === undefined) {
    throw new UsageError(`There is no command \\${name}`, ELSEWHERE[name] ?? 'These are there: \\?');
  }
  await command.run(shell, argument.replace(/[\s;]+$/, ''));
}

export function help(): string[] {
  const width = Math.max(...Object.values(SHELL_COMMANDS).map(({ usage }) => usage.length));
  return [
    ...Object.values(SHELL_COMMANDS).map(({ usage, does }) => `${usage.padEnd(width)}  ${does}`),
    '',
    'A statement ends with ; and is a transaction of its own. \\; between statements makes them one:',
    'they take effect together or not at all. Ctrl-C cancels what runs, Tab completes.',
  ];
}

async function showTables(session: Session, kind?: string): Promise<void> {
  const tables = await session.editor.interruptible((signal) => session.client.tables({ signal }));
  session.tables = tables;
  await session.show(tableLines(kind === undefined ? tables : tables.filter((table) => table.kind.endsWith(kind))));
}

/** What the API does not tell of a table. */
const DETAILS = `
  SELECT 'Indexes' AS what, indexdef AS text FROM pg_indexes WHERE schemaname = current_schema AND tablename = $1
  UNION ALL
  SELECT 'Constraints', conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
    WHERE conrelid = to_regclass(quote_ident($1)) AND contype <> 'n'
  ORDER BY 1 DESC, 2`;

async function describe(session: Session, name: string): Promise<void> {
  const { client, editor } = session;
  const [table, details] = await editor.interruptible((signal) =>
    Promise.all([
      tableNamed(client, name, signal),
      // A token need not have the scope for SQL.
      client
        .query<{ what: string; text: string }>(DETAILS, [name], { read_only: true, signal })
        .catch(() => ({ rows: [] })),
    ]),
  );
  const heads = [...new Set(details.rows.map(({ what }) => what))];
  await session.show([
    ...columnLines(table),
    ...heads.flatMap((head) => [
      `${head}:`,
      ...details.rows.filter(({ what }) => what === head).map(({ text }) => `  ${text}`),
    ]),
  ]);
}

/** The API asks for tables by the names that it gives; SQL gives others. */
async function tableNamed(client: CdpClient, name: string, signal: AbortSignal): Promise<Table> {
  if (new RegExp(NAME_PATTERN).test(name)) return client.describe(name, { signal });
  const table = (await client.tables({ signal })).find((each) => each.name === name);
  if (table === undefined) throw new UsageError(`There is no table ${JSON.stringify(name)}`);
  return table;
}

function pending(session: Session, scanner: StatementScanner): string {
  const sql = scanner.rest() ?? session.lastStatement;
  if (sql === '') throw new UsageError('There is no statement yet');
  return sql;
}

const unquoted = (name: string): string =>
  name.startsWith('"') ? name.replace(/^"|"$/g, '').replaceAll('""', '"') : name;

function needed(argument: string, command: string): string {
  if (argument === '') throw new UsageError(`${command} needs a file`);
  return argument;
}

const pathOf = (written: string): string => resolve(written.replace(/^~(?=\/)/, homedir()));

function switched(argument: string, isOn: boolean): boolean {
  if (argument === '') return !isOn;
  if (argument !== 'on' && argument !== 'off') throw new UsageError(`"${argument}" is neither on nor off`);
  return argument === 'on';
}
