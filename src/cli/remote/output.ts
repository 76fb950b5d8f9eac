/** Standard output of commands: lines, and large results as fast as they are taken. Whoever reads may have had enough. */
import { pipeline } from 'node:stream/promises';
import { printableLines } from './terminal-text.js';

let isHeeding = false;

const isClosedPipe = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'EPIPE';

/**
 * `| head` is no failure: what is written after it has gone is dropped.
 * @param fail told of any other, such as a full disk
 */
export function heedOutput(fail: (error: Error) => void): void {
  if (isHeeding) return;
  isHeeding = true;
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: Error) => {
      if (!isClosedPipe(error)) fail(error);
    });
  }
}

/** A terminal obeys nothing of it. */
export function printLines(lines: readonly string[]): void {
  const text = lines.map((line) => `${line}\n`).join('');
  process.stdout.write(process.stdout.isTTY ? printableLines(text) : text);
}

/** Writes pieces of UTF-8 to a file or pipe as they are, and to a terminal so that it obeys nothing of them. */
export async function printChunks(chunks: AsyncIterable<Uint8Array | string>): Promise<void> {
  try {
    await pipeline(process.stdout.isTTY ? printed(chunks) : chunks, process.stdout, { end: false });
  } catch (error) {
    if (!isClosedPipe(error)) throw error;
  }
}

async function* printed(chunks: AsyncIterable<Uint8Array | string>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  for await (const chunk of chunks) {
    yield printableLines(typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true }));
  }
}
