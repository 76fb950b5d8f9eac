/** The logs of several processes as one: whole lines, whoever else is writing to the same pipe. */
import type { Readable } from 'node:stream';
import { type DestinationStream, type Logger, pino } from 'pino';

const NEWLINE = 10;

/** @param from is copied to where the logger writes; what is no whole line at its end is left out */
export function copyLines(from: Readable, logger: Logger): void {
  const to = (logger as unknown as Record<symbol, DestinationStream>)[pino.symbols.streamSym] as DestinationStream;
  let rest: Buffer[] = [];
  from.on('data', (chunk: Buffer) => {
    const end = chunk.lastIndexOf(NEWLINE) + 1;
    if (end === 0) return void rest.push(chunk);
    to.write(Buffer.concat([...rest, chunk.subarray(0, end)]).toString());
    rest = end === chunk.length ? [] : [chunk.subarray(end)];
  });
}
