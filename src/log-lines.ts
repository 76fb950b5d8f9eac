/**
 * Lines of the log on their way to standard output: gathered, and written in large pieces. pino's own destination would
 * gather them too, but measures all that waits anew for each line that is added.
 */
import { type DestinationStream, pino } from 'pino';

/** Lines wait so long for others to be written with them: a system call for each would cost every request. */
const DELAY_MS = 100;
const PIECE_CHARACTERS = 32 * 1024;

export class LogLines implements DestinationStream {
  private waiting = '';
  private readonly output;

  constructor() {
    setInterval(() => this.flush(), DELAY_MS).unref();
    // Before the output's own listeners, which write what it has.
    process.on('beforeExit', () => this.hand()).on('exit', () => this.hand());
    this.output = pino.destination({ sync: false, minLength: PIECE_CHARACTERS, maxWrite: 2 * PIECE_CHARACTERS });
  }

  write(line: string): void {
    this.waiting += line;
    if (this.waiting.length >= PIECE_CHARACTERS) this.hand();
  }

  /** The output may have kept something back while it was writing. */
  private flush(): void {
    this.hand();
    this.output.flush();
  }

  private hand(): void {
    if (this.waiting === '') return;
    this.output.write(this.waiting);
    this.waiting = '';
  }
}
