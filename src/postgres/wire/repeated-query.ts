/**
 * One query of constants, run several times in one write and up to one Sync: it costs Postgres one wake-up, one transaction
 * and one answer instead of so many. Nothing it does can remain, so that it does not matter how far it came.
 */
import { messageSize, type MessageHandler, type RowTaker } from './framing.js';
import { BACKEND, execute, readTag, SYNC } from './messages.js';
import type { Session } from './session.js';
import type { WholeSink, WholeStatement } from './whole-request.js';

/** One time. */
export interface Run {
  /** 0: all. */
  readonly maxRows: number;
  readonly sink: WholeSink;
}

/**
 * @param statement one that stays parsed
 * @param values of `bound`, as bytes or Latin-1
 * @returns the command tag of each run; null where its row limit ended it
 * @throws PostgresError, ConnectionLost, where not all of them came to their end
 */
export async function runRepeatedly(
  session: Session,
  { parse }: WholeStatement,
  values: Buffer | string,
  runs: readonly Run[],
): Promise<(string | null)[]> {
  const tags: (string | null)[] = [];
  const onMessage: MessageHandler = (type, buffer, start, end) => {
    if (type === BACKEND.commandComplete) tags.push(readTag(buffer, start, end));
    else if (type === BACKEND.portalSuspended) tags.push(null);
    else if (type === BACKEND.rowDescription) runs[tags.length]?.sink.describe(buffer, start, end);
  };
  const takeRows: RowTaker = (buffer, start, end) =>
    runs[tags.length]?.sink.takeRows(buffer, start, end) ?? start + messageSize(buffer, start);
  const bind = typeof values === 'string' ? Buffer.from(values, 'latin1') : values;
  const messages = runs.flatMap(({ maxRows }) => [bind, execute(maxRows)]);
  const parsing = session.hasParsed(parse) ? [] : [Buffer.from(parse, 'latin1')];
  await session.sendHarmless(Buffer.concat([...parsing, ...messages, SYNC]), onMessage, takeRows, parse);
  return tags;
}
