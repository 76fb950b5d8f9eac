/**
 * Lines of the log on their way to standard output: gathered, and written in large pieces. Where they are not taken, for the
 * disk is full or the reader of a pipe stands still, the service goes on without them.
 */
import { fstatSync, write, writeSync } from 'node:fs';
import type { DestinationStream } from 'pino';

/** Lines wait so long for others to be written with them: a system call for each would cost every request. */
const DELAY_MS = 100;
const PIECE_CHARACTERS = 32 * 1024;

/** Where so much waits to be taken, further lines are left out and counted. */
const MAX_WAITING_BYTES = 8 * 1024 * 1024;

const STDOUT = 1;

interface Output {
  /** Bytes that are not written yet. */
  readonly waiting: number;
  write(text: string): void;
  /** Tries what could not be written before. */
  retry(): void;
  /** The process ends now. */
  end(): void;
}

export class LogLines implements DestinationStream {
  private gathered = '';
  private leftOut = 0;
  private readonly output: Output = isRead(STDOUT) ? new PipeOutput() : new FileOutput();

  constructor() {
    setInterval(() => this.hand(), DELAY_MS).unref();
    // Once: to try a full disk again would keep the process from its end.
    process.once('beforeExit', () => this.hand());
    process.on('exit', () => {
      this.hand();
      this.output.end();
    });
  }

  write(line: string): void {
    this.gathered += line;
    if (this.gathered.length >= PIECE_CHARACTERS) this.hand();
  }

  private hand(): void {
    const { output, gathered } = this;
    if (gathered === '') return output.retry();
    this.gathered = '';
    if (output.waiting > MAX_WAITING_BYTES) {
      this.leftOut += gathered.split('\n').length - 1;
      return output.retry();
    }
    if (this.leftOut > 0) output.write(tellOf(this.leftOut));
    this.leftOut = 0;
    output.write(gathered);
  }
}

const tellOf = (lines: number): string =>
  `${JSON.stringify({ level: 40, time: new Date().toISOString(), lines, msg: 'the log could not be written, and lines were left out' })}\n`;

const isRead = (fd: number): boolean => fstatSync(fd).isFIFO() || fstatSync(fd).isSocket();

/** A write to a pipe as to a file would hold up a thread until somebody reads, and with it the end of the process. */
class PipeOutput implements Output {
  constructor() {
    // Whose reader has gone.
    if (process.stdout.listenerCount('error') === 0) process.stdout.on('error', () => {});
  }

  get waiting(): number {
    return process.stdout.writableLength;
  }

  write(text: string): void {
    process.stdout.write(text);
  }

  retry(): void {}

  end(): void {}
}

/** A file, a terminal, a device. A disk may take its time, which is not the event loop's. */
class FileOutput implements Output {
  private bytes = Buffer.alloc(0);
  private isWriting = false;

  get waiting(): number {
    return this.bytes.length;
  }

  write(text: string): void {
    const bytes = Buffer.from(text);
    this.bytes = this.bytes.length === 0 ? bytes : Buffer.concat([this.bytes, bytes]);
    this.retry();
  }

  retry(): void {
    if (this.isWriting || this.bytes.length === 0) return;
    this.isWriting = true;
    write(STDOUT, this.bytes, (error, written) => {
      this.isWriting = false;
      // On a full disk; there will be a next time.
      if (error !== null) return;
      this.bytes = this.bytes.subarray(written);
      this.retry();
    });
  }

  end(): void {
    try {
      // What a thread is writing at this moment is not to be written twice.
      if (!this.isWriting && this.bytes.length > 0) writeSync(STDOUT, this.bytes);
    } catch {
      // Nobody is left to be told.
    }
  }
}
