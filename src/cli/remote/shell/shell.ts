/** The shell of `cdp sql`: a prompt, statements over several lines up to a semicolon, and commands behind a backslash. */
import { readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { CdpClient } from '../../../client/client.js';
import { explain } from '../outcome.js';
import { printLines } from '../output.js';
import { printable } from '../terminal-text.js';
import { type Shell, SHELL_COMMANDS } from './commands.js';
import { complete } from './complete.js';
import { History } from './history.js';
import { includeFile, perform } from './include.js';
import { LineEditor } from './line-editor.js';
import { type Part, StatementScanner } from './scanner.js';
import { isAborted, Session, type SessionOptions } from './session.js';

export interface ShellOptions extends SessionOptions {
  keepsHistory: boolean;
}

/** Characters of the statement above that completion looks at. */
const LOOKED_BACK = 20_000;

/**
 * Runs until the person leaves.
 * @throws CdpError where the token opens nothing, before a prompt
 */
export async function openShell(client: CdpClient, options: ShellOptions): Promise<void> {
  const { project, token } = await client.token();
  const history = await History.open(options.keepsHistory).catch((error: unknown) => {
    process.stderr.write(`${explain(error).join('\n')}\n`);
    return History.open(false);
  });
  const scanner = new StatementScanner();
  const editor: LineEditor = new LineEditor(history.entries, (line) =>
    complete(line, {
      tables: session.tables,
      above: scanner.text.slice(-LOOKED_BACK),
      commands: Object.keys(SHELL_COMMANDS).map((name) => `\\${name}`),
      files: filesThatBegin,
    }),
  );
  const session: Session = new Session(client, editor, options);
  try {
    printLines([`Project ${project.name}, scopes ${token.scopes.join(', ')}. \\? for help, \\q to leave`]);
    void session.refreshTables();
    await new SqlShell(session, scanner, history, printable(project.name)).run();
  } finally {
    session.close();
  }
}

class SqlShell implements Shell {
  readonly session: Session;
  readonly scanner: StatementScanner;
  readonly #history: History;
  readonly #project: string;
  #isLeaving = false;
  /** The lines since nothing was open: one entry of the history. */
  #typed: string[] = [];
  /** Whether a line's end within them means something: it ends a comment, or stands in a string. */
  #hasBreaks = false;

  constructor(session: Session, scanner: StatementScanner, history: History, project: string) {
    this.session = session;
    this.scanner = scanner;
    this.#history = history;
    this.#project = project;
  }

  async run(): Promise<void> {
    while (!this.#isLeaving) {
      const input = await this.session.editor.next(`${this.#project}${this.scanner.open}> `);
      if (input.kind === 'end') return;
      if (input.kind === 'line') {
        await this.#takeLine(input.text).catch((error: unknown) => this.session.complain(error));
      } else {
        this.scanner.reset();
        this.#typed = [];
      }
    }
  }

  readonly include = (file: string): Promise<void> => includeFile(this, file);

  readonly leave = (): void => void (this.#isLeaving = true);

  readonly type = async (text: string): Promise<void> => {
    for (const line of text.trimEnd().split('\n')) {
      printLines([line]);
      await this.#takeLine(line);
    }
  };

  async #takeLine(line: string): Promise<void> {
    const isFirst = this.scanner.isEmpty;
    if (isFirst) [this.#typed, this.#hasBreaks] = [[], false];
    const parts = (isFirst ? wordCommand(line) : undefined) ?? this.scanner.line(line);
    this.#typed.push(line);
    this.#hasBreaks ||= line.includes('--') || !'=-('.includes(this.scanner.open);
    // Before it runs: whatever becomes of it, it can be recalled.
    await this.#remember();
    await this.#perform(parts);
    await this.#remember();
  }

  /** As psql does, it goes on after a failure; after Ctrl-C nothing follows. */
  async #perform(parts: readonly Part[]): Promise<void> {
    for (const part of parts) {
      try {
        await perform(this, part);
      } catch (error) {
        this.session.complain(error);
        if (isAborted(error)) return;
      }
    }
  }

  /** Where nothing is open. */
  async #remember(): Promise<void> {
    if (!this.scanner.isEmpty || this.#typed.length === 0) return;
    const entry = this.#typed.join(this.#hasBreaks ? '\n' : ' ');
    this.#typed = [];
    await this.#history.add(entry).catch((error: unknown) => this.session.complain(error));
  }
}

/** Words that people try in a shell. */
function wordCommand(line: string): Part[] | undefined {
  if (/^\s*(?:quit|exit)\s*;?\s*$/i.test(line)) return [{ kind: 'command', text: '\\q' }];
  return /^\s*help\s*;?\s*$/i.test(line) ? [{ kind: 'command', text: '\\?' }] : undefined;
}

/** Paths as they are written, folders with a slash. */
async function filesThatBegin(beginning: string): Promise<string[]> {
  const folder = beginning.endsWith('/') ? beginning : dirname(beginning);
  const start = beginning.endsWith('/') ? '' : basename(beginning);
  const entries = await readdir(folder, { withFileTypes: true });
  return entries
    .filter(({ name }) => name.startsWith(start) && printable(name) === name)
    .map((entry) => {
      const path = beginning.includes('/') ? join(folder, entry.name) : entry.name;
      return entry.isDirectory() ? `${path}/` : path;
    });
}
