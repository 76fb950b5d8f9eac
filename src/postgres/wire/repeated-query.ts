/**
 * One query of constants, run several times in one write and up to one Sync: it costs Postgres one wake-up, one transaction
 * and one answer instead of so many. Nothing it does can remain, so that it does not matter how far it came.
 */
import { messageSize, type MessageHandler, type RowTaker } from './framing.js';
import { BACKEND, DESCRIBE_PORTAL, execute, readTag, SYNC } from './messages.js';
import type { Session } from './session.js';
import type { WholeSink, WholeStatement } from './one-write.js';

/** Some times, which are all answered with the same. */
interface Run {
  readonly times: number;
  /** 0: all. */
  readonly maxRows: number;
  /** Gets the columns and rows of the first time. */
  readonly sink: WholeSink;
}

/**
 * @param statement one that stays parsed
 * @param values of `bound`, as Latin-1
 * @returns the command tag of each run; null where its row limit ended it
 * @throws PostgresError, ConnectionLost, where not all of them came to their end
 */
export async function runRepeatedly(
  session: Session,
  { parse }: WholeStatement,
  values: string,
  runs: readonly Run[],
): Promise<(string | null)[]> {
  const tags: (string | null)[] = [];
  /** The run that is answered now, and how often it has been. */
  let [at, answered] = [0, 0];
  const onMessage: MessageHandler = (type, buffer, start, end) => {
    const run = runs[at];
    if (type === BACKEND.rowDescription) return run?.sink.describe(buffer, start, end);
    if (type !== BACKEND.commandComplete && type !== BACKEND.portalSuspended) return;
    if (answered === 0) tags.push(type === BACKEND.commandComplete ? readTag(buffer, start, end) : null);
    if (++answered === run?.times) [at, answered] = [at + 1, 0];
  };
  const takeRows: RowTaker = (buffer, start, end) =>
    (answered === 0 ? runs[at]?.sink.takeRows(buffer, start, end) : undefined) ?? start + messageSize(buffer, start);
  const parsing = session.hasParsed(parse) ? '' : parse;
  const messages = runs.map((run) => messagesOf(run, values)).join('');
  await session.sendHarmless(Buffer.from(parsing + messages + SYNCING, 'latin1'), onMessage, takeRows, parse);
  return tags;
}

const SYNCING = SYNC.toString('latin1');

/** Described once. */
function messagesOf({ times, maxRows }: Run, values: string): string {
  const run = execute(maxRows).toString('latin1');
  return values + run + (values.slice(0, -DESCRIBE_PORTAL.length) + run).repeat(times - 1);
}
