/** `cdp changes`: prints the changes of the feed, or a table with the cursor from which its changes go on, one JSON object per line. */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Command, Option } from 'commander';
import type { ChangesPageOptions } from '../../client/changes.js';
import type { CdpClient } from '../../client/client.js';
import { CdpError } from '../../client/error.js';
import { messageOf } from '../../contract/errors.js';
import { EXIT, exitCodeOf, UsageError } from '../exit.js';
import { abortOnSignals } from '../signals.js';
import { printableLines } from '../terminal/text.js';
import { printChunks, warn } from '../terminal/output.js';
import { warnOfMissing } from './feed.js';
import { clientFromOptions } from './profiles.js';
import { list, remoteOptions, whole } from './remote-options.js';

interface Options {
  follow?: true;
  after?: string;
  tables?: string[];
  limit?: number;
  snapshot?: string;
}

/** Seconds that a request waits while changes are followed. */
const WAIT_S = 30;

/** After the client has given up on a service that cannot be reached. */
const PAUSE_MS = 5_000;

export function changesCommand(): Command {
  const command = new Command('changes')
    .description('Print changes, one JSON object per line; the cursor of the last one goes on')
    .option('--follow', 'Wait for more, until it is interrupted')
    .option('--after <CURSOR>', 'Changes after this cursor (default: with --follow, from now on)')
    .option('--tables <NAMES>', 'Only changes of these tables: a,b', list)
    .option('--limit <N>', 'End after so many changes', whole)
    .addOption(
      new Option('--snapshot <TABLE>', 'Print a line with a cursor, and the rows of the table as of then').conflicts([
        'follow',
        'after',
        'tables',
        'limit',
      ]),
    )
    .addHelpText('after', EXAMPLES);
  return remoteOptions(command).action(async () => {
    const options = command.opts<Options>();
    const { follow, after, snapshot } = options;
    if (snapshot === undefined && follow === undefined && after === undefined)
      throw new UsageError('Changes after what?', 'Give --after CURSOR, --follow, or --snapshot TABLE');
    const client = await clientFromOptions(command);
    if (snapshot === undefined) return untilStopped((signal) => printChanges(client, options, signal));
    await abortOnSignals((signal) => printChunks(endedLines(client.snapshotLines(snapshot, { signal }))));
  });
}

const EXAMPLES = `
Examples:
  cdp changes --follow
  cdp changes --follow --tables customers --after 9f3a01c7.1a2b3c4.2 >> customers.ndjson
  cdp changes --snapshot customers`;

/** A signal and a closed pipe are how following ends: everything printed is complete. */
async function untilStopped(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const closed = new AbortController();
  process.stdout.once('error', () => closed.abort());
  await abortOnSignals(async (signal) => {
    try {
      await work(AbortSignal.any([signal, closed.signal]));
    } catch (error) {
      if (!(error instanceof CdpError && error.code === 'aborted')) throw error;
    }
  });
}

async function printChanges(client: CdpClient, options: Options, signal: AbortSignal): Promise<void> {
  const { follow = false, tables, limit = Infinity } = options;
  let { after } = options;
  await warnOfMissing(client, tables);
  let hasBegun = false;
  for (let left = limit; left > 0;) {
    const request: ChangesPageOptions = {
      ...(after === undefined ? {} : { after }),
      ...(tables === undefined ? {} : { tables }),
      limit: Math.min(left, 1_000),
      // Without a cursor, a repeated request would begin later than the first one.
      wait: follow && after !== undefined ? WAIT_S : 0,
      signal,
    };
    const json = await client.changesJson(request).catch(async (error: unknown) => {
      if (!hasBegun || !follow || exitCodeOf(error) !== EXIT.unreachable) throw error;
      warn(`Warning: ${messageOf(error)}. Trying again`);
      // Interrupted: the request that follows ends with it.
      await sleep(PAUSE_MS, undefined, { signal }).catch(() => {});
    });
    if (json === undefined) continue;
    hasBegun = true;
    const changes = changesIn(json);
    await write(changes.map((change) => `${change}\n`).join(''), signal);
    left -= changes.length;
    ({ cursor: after } = JSON.parse(json) as { cursor: string });
    if (!follow && changes.length === 0) break;
  }
  // A reader of few tables goes on from here, past all that was not for it.
  if (!follow && after !== undefined) warn(`Go on with --after ${after}`);
}

async function write(text: string, signal: AbortSignal): Promise<void> {
  if (text === '') return;
  const { stdout } = process;
  if (stdout.write(stdout.isTTY ? printableLines(text) : text)) return;
  // Interrupted, or closed: the request that follows ends with it.
  await once(stdout, 'drain', { signal }).catch(() => {});
}

async function* endedLines(lines: AsyncIterable<string>): AsyncGenerator<string> {
  for await (const line of lines) yield `${line}\n`;
}

/** The elements of `"changes":[…]` as they came, with all digits of their numbers. @param page the text of an answer */
export function changesIn(page: string): string[] {
  const found: string[] = [];
  const first = page.indexOf('"changes":[') + '"changes":['.length;
  for (let at = first; page[at] === '{' || page[at] === ',';) {
    if (page[at] === ',') at++;
    const end = endOfObject(page, at);
    found.push(page.slice(at, end));
    at = end;
  }
  return found;
}

const TOKENS = /"(?:[^"\\]|\\.)*"|[{}]/gs;

function endOfObject(json: string, start: number): number {
  TOKENS.lastIndex = start;
  for (let depth = 0, token = TOKENS.exec(json); token !== null; token = TOKENS.exec(json)) {
    if (token[0] === '{') depth++;
    if (token[0] === '}' && --depth === 0) return TOKENS.lastIndex;
  }
  throw new Error('The answer is not complete JSON');
}
