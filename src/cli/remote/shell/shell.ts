/** The shell of `cdp sql`: a prompt for statements that end with a semicolon, and a few commands named as in psql. */
import { once } from 'node:events';
import { appendFile, chmod, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import type { CdpClient } from '../../../client/client.js';
import { CdpError } from '../../../client/error.js';
import type { QueryOptions } from '../../../client/sql.js';
import { isMissing, replaceFile } from '../../../files.js';
import { printError, UsageError, PROGRAM } from '../../exit.js';
import { terminalWidth } from '../../terminal/grid.js';
import { printLines, writeLines } from '../../terminal/output.js';
import { printable } from '../../terminal/text.js';
import { ownProject } from '../profiles.js';
import { type Layout, printWarnings, queryResults, resultLines } from '../results.js';
import { columnLines, listLines } from '../tables.js';
import { makePrivate, readTextFile, stateFolder } from '../user-files.js';
import { StatementReader } from './statements.js';

interface ShellOptions {
  query: QueryOptions;
  expanded: Layout['expanded'];
  keepsHistory: boolean;
}

const HELP = [
  '\\d [TABLE]  list the tables and views, or show the columns of one',
  '\\i FILE     run a file as one request, all or nothing',
  '\\?          show this help',
  '\\q          leave, as Ctrl-D does',
  'A statement ends with a ; at the end of a line. Statements on one line run in one transaction. Ctrl-C cancels.',
];

const MORE = `more with ${PROGRAM} sql --max-rows, all with ${PROGRAM} export`;

/**
 * Runs until the user quits.
 * @throws CdpError before the first prompt if the token is not accepted
 */
export async function openShell(client: CdpClient, options: ShellOptions): Promise<void> {
  const { project, scopes } = await ownProject(client);
  const history = options.keepsHistory ? await readHistory() : [];
  printLines([`Project ${project.name}, scopes ${scopes.join(', ')}. \\? for help, \\q to leave`]);
  await new Shell(client, printable(project.name), options, history).run();
}

class Shell {
  private readonly editor: Interface;
  private readonly statement = new StatementReader();
  /** Lines of an incomplete statement. */
  private typed: string[] = [];
  /** Lines that are still to be processed: a paste brings several at once. */
  private waiting: string[] = [];
  private running: AbortController | undefined;
  private isClosed = false;
  private keepsHistory: boolean;
  /** The line editor's own history, which would contain lines; it is reset to statements before each prompt. */
  private editorHistory: string[] = [];

  /** @param history statements and commands, the newest first */
  constructor(
    private readonly client: CdpClient,
    private readonly project: string,
    private readonly options: ShellOptions,
    private readonly history: string[],
  ) {
    this.keepsHistory = options.keepsHistory;
    this.editor = createInterface({
      input: process.stdin,
      output: process.stdout,
      terminal: true,
      history: [...history],
      historySize: HISTORY_ENTRIES,
    });
  }

  async run(): Promise<void> {
    let work = Promise.resolve();
    this.editor
      .on('history', (lines) => void (this.editorHistory = lines))
      .on('SIGINT', () => this.interrupt())
      .on('line', (line) => {
        this.waiting.push(line);
        work = work.then(() => this.next());
      })
      .on('close', () => (this.isClosed = true));
    this.prompt();
    await once(this.editor, 'close');
    await work;
    process.stdout.write('\n');
  }

  private prompt(): void {
    if (this.isClosed) return;
    this.editorHistory.splice(0, Infinity, ...this.history);
    this.editor.setPrompt(`${this.project}${this.statement.open}> `);
    this.editor.prompt(true);
  }

  /** Processes the next line, unless a Ctrl-C has dropped it. */
  private async next(): Promise<void> {
    const line = this.waiting.shift();
    if (line === undefined) return;
    // A recalled statement may have several lines.
    for (const part of line.split(/[\r\n]/)) await this.take(part).catch((error: unknown) => this.complain(error));
    if (this.waiting.length === 0) this.prompt();
  }

  private async take(line: string): Promise<void> {
    this.typed.push(line);
    const isCommand = this.statement.open === '=' && /^\s*(\\|(quit|exit)\s*;?\s*$)/i.test(line);
    const sql = isCommand ? undefined : this.statement.add(line);
    if (this.statement.open === '=') await this.remember();
    if (isCommand) await this.command(line.trim());
    else if (sql !== undefined) await this.execute(sql);
  }

  /** Call this before the statement runs, so that it can be recalled after any outcome. */
  private async remember(): Promise<void> {
    const text = this.typed.join(/--|['"$]/.test(this.typed.join('')) ? '\n' : ' ');
    this.typed = [];
    if (text.trim() === '' || text === this.history[0]) return;
    this.history.unshift(text);
    if (!this.keepsHistory) return;
    await appendHistory(text).catch((error: unknown) => {
      this.keepsHistory = false;
      this.complain(error);
    });
  }

  private async command(text: string): Promise<void> {
    const [, name = 'q', argument = ''] = /^(?:\\(\S*)\s*)?(.*?)[\s;]*$/.exec(text) ?? [];
    switch (name) {
      case 'd':
      case 'dt':
        return argument === '' ? this.list() : this.describe(argument.replace(/^"|"$/g, ''));
      case 'i':
        return this.execute(await readTextFile(argument));
      case '?':
        return printLines(HELP);
      case 'q':
        this.waiting = [];
        return this.editor.close();
      default:
        throw new UsageError(`There is no command \\${name}`, 'Type \\? for help');
    }
  }

  private async list(): Promise<void> {
    const tables = await this.abortable((signal) => this.client.tables({ signal }));
    printLines(listLines(tables));
  }

  /** Searches the list, since the API describes single tables only if it allows their names. */
  private async describe(name: string): Promise<void> {
    const tables = await this.abortable((signal) => this.client.tables({ signal }));
    printLines(columnLines(tables.find((table) => table.name === name) ?? (await this.client.describe(name))));
  }

  private async execute(sql: string): Promise<void> {
    const answer = await this.abortable((signal) =>
      queryResults(this.client, sql, [], { ...this.options.query, signal }),
    ).catch((error: unknown) => this.complain(error, sql));
    if (answer === undefined) return;
    printWarnings(answer.warnings);
    const layout = { expanded: this.options.expanded, width: terminalWidth(), more: MORE };
    writeLines(answer.results.flatMap((result) => resultLines(result, layout)));
  }

  private async abortable<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    this.running = new AbortController();
    try {
      return await work(this.running.signal);
    } finally {
      this.running = undefined;
    }
  }

  /** Cancels the running statement and the rest of a paste, or discards the input. */
  private interrupt(): void {
    this.waiting = [];
    this.editor.write(null, { ctrl: true, name: 'e' });
    this.editor.write(null, { ctrl: true, name: 'u' });
    process.stdout.write('^C\n');
    if (this.running !== undefined) return this.running.abort();
    this.typed = [];
    this.statement.reset();
    this.prompt();
  }

  private complain(error: unknown, sql?: string): void {
    const isCancelled = error instanceof CdpError && error.code === 'aborted';
    if (isCancelled) process.stderr.write('Canceled, unless it had already finished\n');
    else printError(error, sql);
  }
}

// The history of the shell: one JSON string per line, without possible secrets, in a file that only its owner can
// read.

const HISTORY_ENTRIES = 1_000;
/** In characters; longer input was pasted. */
const MAX_CHARACTERS = 32 * 1024;

/**
 * A literal next to a word for secrets, or one of our tokens anywhere. It is better to omit too much than too little.
 */
const SECRET_WORD =
  /passw|passphrase|secret|token|credential|api_?key|private_?key|crypt|pgp_|hmac|bearer|\bidentified\b/i;
const LITERAL = /'|\$\w*\$/;
const OWN_TOKEN = /cdp_[\w-]{16,}/;

const maySpillSecret = (text: string): boolean =>
  OWN_TOKEN.test(text) || (SECRET_WORD.test(text) && LITERAL.test(text));

const historyFile = (): string => join(stateFolder(), 'sql-history');

const lineOf = (text: string): string => `${JSON.stringify(text)}\n`;

/** The newest entry first. */
async function readHistory(): Promise<string[]> {
  const file = historyFile();
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    if (isMissing(error)) return '';
    throw error;
  });
  if (text === '') return [];
  await chmod(file, 0o600);
  const lines = text.split('\n');
  const entries = lines.slice(-HISTORY_ENTRIES - 1).flatMap(entryOf);
  if (lines.length > 2 * HISTORY_ENTRIES) await replaceFile(file, entries.map(lineOf).join(''), 0o600);
  return entries.reverse();
}

/** Empty if the line is foreign or was cut off. */
function entryOf(line: string): string[] {
  try {
    const entry: unknown = JSON.parse(line);
    return typeof entry === 'string' ? [entry] : [];
  } catch {
    return [];
  }
}

/** Appends at once, since a terminal may be closed at any time. */
export async function appendHistory(text: string): Promise<void> {
  if (text.length > MAX_CHARACTERS || maySpillSecret(text)) return;
  await makePrivate(stateFolder());
  await appendFile(historyFile(), lineOf(text), { mode: 0o600 });
}
