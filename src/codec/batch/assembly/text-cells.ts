/**
 * Values as COPY text (Postgres manual, COPY, "Text Format"), for tables with columns whose binary format is not
 * supported.
 */
import { array } from './arrays';
import { skipQuote, uuid } from './binary-cells';
import { LOWER_F, LOWER_T, OPEN_BRACKET, PLUS, QUOTE, SPACE, ZERO } from './bytes';
import { literalEnd, scalarEnd, valueEnd } from './json';
import { ARRAY, BOOLEAN, FLOAT, ID, INTEGER, JSON_TEXT, JSONB, TIMESTAMP } from './kinds';
import { outAt, seek, write } from './memory';
import { float, int64, integer, wholeEnd } from './number';
import { CELL, copied, copiedEscaped, string } from './strings';
import { offsetAt, timestamp } from './timestamp';

/** `YYYY-MM-DD`, `±hh:mm` */
const DATE_BYTES: usize = 10;
const OFFSET_BYTES: usize = 6;

/** `00:00:00` */
const MIDNIGHT: u64 = 0x3030_3a30_303a_3030;

/** Like `binaryValue`. */
export function textValue(kind: i32, at: usize): usize {
  const isQuoted = load<u8>(at) == QUOTE;
  switch (kind) {
    case INTEGER: {
      const start = at + usize(isQuoted);
      const end = integer(start, !isQuoted);
      // -0 becomes 0.
      if (int64 == 0) write(ZERO);
      else if (end != 0) copied(start, wholeEnd);
      return isQuoted ? skipQuote(end) : end;
    }
    case FLOAT: {
      const start = at + usize(isQuoted);
      const end = copied(start, float(start));
      return isQuoted ? skipQuote(end) : end;
    }
    case BOOLEAN:
      write(load<u8>(at) == LOWER_T ? LOWER_T : LOWER_F);
      return literalEnd(at);
    case TIMESTAMP:
      return isQuoted ? time(at + 1) : 0;
    case JSONB:
    case JSON_TEXT:
      return copiedEscaped(at, valueEnd(at));
    case ID: {
      const start = outAt;
      const end = uuid(at);
      // Only its check was needed, not its sixteen bytes.
      seek(start);
      if (end != 0) copied(at + 1, end - 1);
      return end;
    }
    default:
      if (isQuoted) return string(at, CELL);
      return kind == ARRAY && load<u8>(at) == OPEN_BRACKET ? array(at) : copied(at, scalarEnd(at));
  }
}

/** Also writes the offset, so that the time does not depend on the session's time zone. */
function time(start: usize): usize {
  const end = timestamp(start);
  if (end == 0) return 0;
  const to = outAt;
  const hasOffset = end - offsetAt == OFFSET_BYTES;
  copied(start, hasOffset ? end : offsetAt);
  if (end - start == DATE_BYTES) {
    write(SPACE);
    store<u64>(outAt, MIDNIGHT);
    seek(outAt + 8);
  } else store<u8>(to + DATE_BYTES, SPACE);
  if (!hasOffset) {
    write(PLUS);
    write(ZERO);
    write(ZERO);
  }
  return skipQuote(end);
}
