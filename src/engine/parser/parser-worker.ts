/** The worker thread that runs Postgres's own parser: it receives texts and sends back their statements. */
import { hasSqlDetails, loadModule, parseSync, type Node, type RawStmt } from 'libpg-query';
import { parentPort } from 'node:worker_threads';
import { LIMITS } from '../../contract/limits.js';
import { freesSpace, type FreesSpace } from './frees-space.js';
import { isSlowToRead } from './keywords.js';
import { readerEffect, type ReaderEffect } from './reader-effect.js';

/** Why a statement is not allowed in a request (contract C13.7). */
export type RejectedKind = 'transaction_control' | 'copy_in' | 'copy_out' | 'listen';

interface ParsedStatement {
  /** From its first token up to its semicolon. */
  readonly text: string;
  /** Characters before it in the whole text (code points, as Postgres counts positions). */
  readonly offset: number;
  readonly rejected: RejectedKind | null;
  readonly frees: FreesSpace | null;
  /** Effect in a reader's session at the Postgres port. */
  readonly readerEffect: ReaderEffect;
}

/**
 * `syntax_error`: the grammar rejects the text. `too_slow`: its lexer would take too long. `parser_failed`: the parser itself
 * failed, and its memory is unsound.
 */
export type Parsed =
  | { readonly outcome: 'statements'; readonly count: number; readonly statements: readonly ParsedStatement[] }
  | { readonly outcome: 'syntax_error' | 'too_slow' | 'parser_failed' };

export interface ParserReply {
  readonly parsed: Parsed;
  /** Bytes that this thread holds outside its JavaScript heap: the parser's memory, which never shrinks. */
  readonly memoryBytes: number;
}

/** Returns at most as many statements as a request may hold; `count` says how many there are. */
function parse(text: string): Parsed {
  if (isSlowToRead(text)) return { outcome: 'too_slow' };
  try {
    const statements = parseSync(text).stmts ?? [];
    return {
      outcome: 'statements',
      count: statements.length,
      statements: cut(text, statements.slice(0, LIMITS.statementsPerRequest)),
    };
  } catch (error) {
    return { outcome: hasSqlDetails(error) ? 'syntax_error' : 'parser_failed' };
  }
}

/** The parser counts in bytes of UTF-8; a length of 0 means "to the end". */
function cut(text: string, statements: readonly RawStmt[]): ParsedStatement[] {
  const bytes = Buffer.from(text);
  let countedBytes = 0;
  let offset = 0;
  return statements.map(({ stmt, stmt_location: start = 0, stmt_len: length = 0 }) => {
    offset += codePoints(bytes.subarray(countedBytes, start));
    countedBytes = start;
    const end = length > 0 ? start + length : bytes.length;
    const kinds =
      stmt === undefined
        ? NOTHING
        : { rejected: rejectedKind(stmt), frees: freesSpace(stmt), readerEffect: readerEffect(stmt) };
    return { text: bytes.toString('utf8', start, end), offset, ...kinds };
  });
}

const NOTHING = { rejected: null, frees: null, readerEffect: 'refused' } as const;

/** Counts the bytes that are not UTF-8 continuation bytes. */
function codePoints(bytes: Uint8Array): number {
  let count = 0;
  for (const byte of bytes) if ((byte & 0xc0) !== 0x80) count++;
  return count;
}

/** A COPY from or to the client has no file name; the grammar does not distinguish STDIN and STDOUT. */
function rejectedKind(statement: Node): RejectedKind | null {
  if ('TransactionStmt' in statement) return 'transaction_control';
  if ('ListenStmt' in statement || 'UnlistenStmt' in statement) return 'listen';
  if ('CopyStmt' in statement && statement.CopyStmt.filename === undefined) {
    return statement.CopyStmt.is_from === true ? 'copy_in' : 'copy_out';
  }
  return null;
}

await loadModule();
parentPort?.on('message', (text: string) => {
  const reply: ParserReply = { parsed: parse(text), memoryBytes: process.memoryUsage().external };
  parentPort?.postMessage(reply);
});
