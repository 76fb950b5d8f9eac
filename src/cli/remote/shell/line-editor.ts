/**
 * Lines from the terminal, edited with Node's own line editor. While something runs it shows nothing of what is typed, and
 * keeps it for afterwards, so that lines pasted together come out each behind its prompt and above its result.
 */
import { createInterface, type Interface } from 'node:readline';
import { Writable } from 'node:stream';
import { HISTORY_ENTRIES } from './history.js';

export type Input = { readonly kind: 'line'; readonly text: string } | { readonly kind: 'interrupted' | 'end' };

/** @returns what could stand there, and how much of the line that would replace */
export type Completer = (line: string) => Promise<[hits: string[], replaced: string]>;

/** The terminal as the line editor sees it: one of endless lines, and deaf, where nothing is to be shown. */
class Screen extends Writable {
  isMuted = false;

  get columns(): number {
    return this.isMuted ? Infinity : process.stdout.columns || 80;
  }

  override _write(chunk: Uint8Array, _encoding: BufferEncoding, done: () => void): void {
    if (!this.isMuted) process.stdout.write(chunk);
    done();
  }
}

export class LineEditor {
  readonly #screen = new Screen();
  readonly #editor: Interface;
  /** Lines that nobody has taken yet; those typed while nothing was shown are yet to be. */
  #typed: { text: string; isShown: boolean }[] = [];
  #isClosed = false;
  #isInterrupted = false;
  #wake: (() => void) | undefined;
  #running: AbortController | undefined;
  #isAway = false;
  readonly #history: readonly string[];
  /** The editor's own, of single lines; ours is of statements. */
  #lines: string[] = [];

  /** @param history the newest first; what is added to it can be recalled from the next prompt on */
  constructor(history: readonly string[], complete: Completer) {
    this.#history = history;
    this.#editor = createInterface({
      input: process.stdin,
      output: this.#screen,
      terminal: true,
      history: [...history],
      historySize: HISTORY_ENTRIES,
      completer: (line: string, done: (error: null, result: [string[], string]) => void) =>
        void complete(line).then(
          (result) => done(null, result),
          () => done(null, [[], line]),
        ),
    });
    this.#editor
      .on('history', (lines) => {
        this.#lines = lines;
        this.#recall();
      })
      .on('line', (text) => this.#take(text))
      .on('SIGINT', () => this.#interrupt())
      .on('close', () => this.#close());
    process.stdout.on('resize', this.#resize);
    process.on('SIGINT', this.#onSignal);
  }

  /** The next line, or why there is none. */
  async next(prompt: string): Promise<Input> {
    for (;;) {
      if (this.#isInterrupted) {
        this.#isInterrupted = false;
        return { kind: 'interrupted' };
      }
      const line = this.#typed.shift();
      if (line !== undefined) {
        this.#screen.isMuted = true;
        if (!line.isShown) process.stdout.write(`${prompt}${line.text}\n`);
        return { kind: 'line', text: line.text };
      }
      if (this.#isClosed) return { kind: 'end' };
      this.#recall();
      this.#screen.isMuted = false;
      this.#editor.setPrompt(prompt);
      this.#editor.prompt(true);
      await new Promise<void>((wake) => (this.#wake = wake));
    }
  }

  /** Ctrl-C while this runs ends it, and forgets the lines that were typed behind it. */
  async interruptible<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const running = new AbortController();
    this.#running = running;
    try {
      return await work(running.signal);
    } finally {
      this.#running = undefined;
    }
  }

  /** Leaves the terminal to a program that runs, without anything else, until it ends. */
  lend<T>(run: () => T): T {
    this.#isAway = true;
    process.stdin.setRawMode(false);
    try {
      return run();
    } finally {
      if (!this.#isClosed) process.stdin.setRawMode(true);
      // A Ctrl-C for that program reaches us as a signal too, at the next turn: after one, and before two.
      setImmediate(() => setImmediate(() => (this.#isAway = false)));
    }
  }

  close(): void {
    process.stdout.off('resize', this.#resize);
    process.off('SIGINT', this.#onSignal);
    this.#isClosed = true;
    this.#editor.close();
  }

  readonly #resize = (): void => void this.#screen.emit('resize');
  /** Without the editor, or in a program that has the terminal, Ctrl-C is a signal. */
  readonly #onSignal = (): void => {
    if (!this.#isAway) this.#interrupt();
  };

  #take(line: string): void {
    // Newer editors give back the lines of what is recalled so.
    const text = line.replaceAll('\r', '\n');
    this.#typed.push({ text, isShown: !this.#screen.isMuted });
    this.#screen.isMuted = true;
    this.#awake();
  }

  #recall(): void {
    this.#lines.splice(0, this.#lines.length, ...this.#history);
  }

  /** Ends what runs, or gives up the line, which stays to be seen. */
  #interrupt(): void {
    this.#typed = [];
    if (!this.#isClosed) {
      this.#editor.write(null, { ctrl: true, name: 'e' });
      this.#screen.isMuted = true;
      this.#editor.write(null, { ctrl: true, name: 'u' });
    }
    process.stdout.write('^C\n');
    if (this.#running === undefined) this.#isInterrupted = true;
    this.#running?.abort();
    this.#awake();
  }

  /** The person pressed Ctrl-D, or the terminal is gone. */
  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (this.#running === undefined) process.stdout.write('\n');
    this.#awake();
  }

  #awake(): void {
    this.#wake?.();
    this.#wake = undefined;
  }
}
