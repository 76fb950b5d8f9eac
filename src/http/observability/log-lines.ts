/**
 * The destination of the log: standard output, written in large chunks. If it does not accept them, because the disk is
 * full or the reader of a pipe has stalled, the service goes on without them.
 */
import { fstatSync, write, writeSync } from 'node:fs';
import type { DestinationStream } from 'pino';

/** How long lines wait for others: a system call for each would cost every request. */
const DELAY_MS = 100;
const CHUNK_CHARACTERS = 32 * 1024;

/** If this much is waiting to be written, further lines are dropped and counted. */
const MAX_WAITING_BYTES = 8 * 1024 * 1024;

const STDOUT = 1;

interface Output {
  /** Bytes that are not written yet. */
  readonly waiting: number;
  write(text: string): void;
  /** Retries what could not be written. */
  retry(): void;
  /** The process is exiting. */
  end(): void;
}

export class LogLines implements DestinationStream {
  private gathered = '';
  private dropped = 0;
  private readonly output: Output = isRead(STDOUT) ? new PipeOutput() : new FileOutput();

  constructor() {
    setInterval(() => this.flush(), DELAY_MS).unref();
    // Once: retrying a full disk would keep the process from exiting.
    process.once('beforeExit', () => this.flush());
    process.on('exit', () => {
      this.flush();
      this.output.end();
    });
  }

  write(line: string): void {
    this.gathered += line;
    if (this.gathered.length >= CHUNK_CHARACTERS) this.flush();
  }

  private flush(): void {
    const { output, gathered } = this;
    if (gathered === '') return output.retry();
    this.gathered = '';
    if (output.waiting > MAX_WAITING_BYTES) {
      this.dropped += gathered.split('\n').length - 1;
      return output.retry();
    }
    if (this.dropped > 0) output.write(dropNotice(this.dropped));
    this.dropped = 0;
    output.write(gathered);
  }
}

const dropNotice = (lines: number): string =>
  `${JSON.stringify({ level: 40, time: new Date().toISOString(), lines, msg: 'the log could not be written, and lines were dropped' })}\n`;

const isRead = (fd: number): boolean => fstatSync(fd).isFIFO() || fstatSync(fd).isSocket();

/** Written like a file, a pipe would block a thread until somebody reads, and with it the exit of the process. */
class PipeOutput implements Output {
  constructor() {
    // The reader has gone.
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

/** A file, a terminal, a device. Written by a thread: a disk can be slow. */
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
      // The disk is full; it is tried again later.
      if (error !== null) return;
      this.bytes = this.bytes.subarray(written);
      this.retry();
    });
  }

  end(): void {
    try {
      // What a thread is writing now must not be written twice.
      if (!this.isWriting && this.bytes.length > 0) writeSync(STDOUT, this.bytes);
    } catch {
      // There is nobody left to report to.
    }
  }
}
