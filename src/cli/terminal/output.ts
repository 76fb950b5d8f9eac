/** Writes the output of commands: lines, and large results as fast as the reader accepts them. */
import { pipeline } from 'node:stream/promises';
import type { Command } from 'commander';
import { hasCode } from '../../files.js';
import { colored, printableLines } from './text.js';

/**
 * Drops output after the reader has closed the pipe, so that `| head` is not a failure. Any other error, such as a full
 * disk, ends the process.
 */
export function handleOutputErrors(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: Error) => {
      if (hasCode(error, 'EPIPE')) return;
      process.stderr.write(`cdp: Standard output: ${error.message}\n`);
      process.exit(1);
    });
  }
}

/** Prints lines; on a terminal, control characters are escaped. */
export function printLines(lines: readonly string[]): void {
  const text = lines.map((line) => `${line}\n`).join('');
  process.stdout.write(process.stdout.isTTY ? printableLines(text) : text);
}

/** Writes lines as they are: colored, with other control characters already escaped. */
export const writeLines = (lines: readonly string[]): void =>
  void process.stdout.write(lines.map((line) => `${line}\n`).join(''));

/** On standard error, since standard output is for results. */
export const warn = (message: string): void =>
  void process.stderr.write(`${message.replace(/^Warning:.*/, (line) => colored(process.stderr, 'yellow', line))}\n`);

/** JSON for programs, lines for people. */
export function print(command: Command, value: object, lines: readonly string[], write = printLines): void {
  if (command.opts<{ json?: boolean }>().json) printLines([JSON.stringify(value)]);
  else write(lines);
}

/** Writes UTF-8 to a file or pipe unchanged, and to a terminal with control characters escaped. */
export async function printChunks(chunks: AsyncIterable<Uint8Array | string>): Promise<void> {
  try {
    await pipeline(process.stdout.isTTY ? printed(chunks) : chunks, process.stdout, { end: false });
  } catch (error) {
    if (!hasCode(error, 'EPIPE')) throw error;
  }
}

async function* printed(chunks: AsyncIterable<Uint8Array | string>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  for await (const chunk of chunks) {
    yield printableLines(typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true }));
  }
}
