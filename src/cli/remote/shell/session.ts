/** One shell: what it speaks to, how it shows what it gets, and what it knows of the tables. */
import { appendFile } from 'node:fs/promises';
import type { CdpClient } from '../../../client/client.js';
import { CdpError } from '../../../client/error.js';
import type { QueryOptions } from '../../../client/sql.js';
import type { Table } from '../../../contract/wire/tables.js';
import { Ending, explain } from '../outcome.js';
import { printLines } from '../output.js';
import { type Layout, queryResults, resultLines } from '../results.js';
import { widthOf } from '../terminal-text.js';
import type { LineEditor } from './line-editor.js';
import { page } from './programs.js';

export interface SessionOptions {
  query: QueryOptions;
  expanded: Layout['expanded'];
}

/** Statements after which there may be other tables or columns. */
const CHANGES_TABLES = /^(CREATE|ALTER|DROP|DO|CALL)/;

export class Session {
  isTimed = false;
  expanded: Layout['expanded'];
  /** Where results go in place of the terminal. */
  outputFile: string | undefined;
  /** The one before, for `\g` and `\e`. */
  lastStatement = '';
  tables: readonly Table[] = [];
  readonly client: CdpClient;
  readonly editor: LineEditor;
  readonly #query: QueryOptions;
  readonly #closing = new AbortController();

  constructor(client: CdpClient, editor: LineEditor, { query, expanded }: SessionOptions) {
    this.client = client;
    this.editor = editor;
    this.#query = query;
    this.expanded = expanded;
  }

  /** For completion alone: a token that may not look at the tables, or a service that is away, is no failure here. */
  async refreshTables(): Promise<void> {
    this.tables = await this.client.tables({ signal: this.#closing.signal }).catch(() => this.tables);
  }

  /** Nobody waits for what is still asked. */
  close(): void {
    this.#closing.abort();
    this.editor.close();
  }

  /** @throws CdpError */
  async run(sql: string, expanded = this.expanded): Promise<void> {
    this.lastStatement = sql;
    const started = performance.now();
    const results = await this.editor.interruptible((signal) =>
      queryResults(this.client, sql, [], { ...this.#query, signal }),
    );
    const milliseconds = performance.now() - started;
    const width = this.outputFile === undefined ? process.stdout.columns : undefined;
    const more = 'more with cdp sql --max-rows, all with cdp export';
    await this.show(results.flatMap((result) => resultLines(result, { expanded, width, more })));
    if (this.isTimed) printLines([`Time: ${milliseconds.toFixed(3)} ms`]);
    if (results.some(({ type }) => CHANGES_TABLES.test(type))) void this.refreshTables();
  }

  /** To the file of `\o`; else to the terminal, through a pager where they do not fit there. */
  async show(lines: readonly string[]): Promise<void> {
    const text = lines.map((line) => `${line}\n`).join('');
    if (this.outputFile !== undefined) return appendFile(this.outputFile, text);
    const { rows = 24, columns = 80 } = process.stdout;
    const height = lines.reduce((sum, line) => sum + Math.max(1, Math.ceil(widthOf(line) / columns)), 0);
    if (height >= rows && this.editor.lend(() => page(text))) return;
    printLines(lines);
  }

  /** On the terminal, whatever `\o` says. */
  complain(error: unknown): void {
    const lines = isAborted(error)
      ? ['Cancelled, unless it was done already']
      : explain(error, this.lastStatement).map((line) => line.replace(/^cdp: /, ''));
    const isTransaction = error instanceof CdpError && error.code === 'statement_not_allowed';
    if (isTransaction) lines.push('Here, \\; between statements makes one request of them');
    process.stderr.write(lines.map((line) => `${line}\n`).join(''));
  }
}

/** Whether Ctrl-C was its cause. */
export function isAborted(error: unknown): boolean {
  if (error instanceof Ending) return isAborted(error.cause);
  return error instanceof CdpError && error.code === 'aborted';
}
