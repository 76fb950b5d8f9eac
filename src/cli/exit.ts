/** How a command ends: its exit code, and its error messages, which name this program as its user started it. */
import { CommanderError, type Option } from 'commander';
import { CdpError, type CdpErrorCode } from '../client/error.js';
import { EngineError, type ErrorDetail, messageOf } from '../contract/errors.js';
import { counted } from '../contract/message-text.js';
import { FileError } from '../import/file-error.js';
import { ConfigError } from './load-config.js';
import { colored, firstCells, printable, printableLines, widthOf } from './terminal/text.js';

/**
 * Set if npm started this process: then `cdp` may not be in the PATH, and `npx cdp` could run another package of that
 * name.
 */
const { npm_command: npmCommand } = process.env;

export const PROGRAM = npmCommand === undefined ? 'cdp' : 'npx cdp-data-engine';

/** Replaces `cdp` in commands within a message of the service, which does not know this name. */
export const withProgramName = (message: string): string =>
  message.replace(/(?<![\w./-])cdp (?=[a-z])/g, `${PROGRAM} `);

export const EXIT = {
  done: 0,
  /** The service rejected the request, or a file cannot be read or written. */
  refused: 1,
  usage: 2,
  /** No response: nothing listens at the address, the network is down, or the service stays overloaded. */
  unreachable: 3,
  /** The import is complete, but some records were refused. */
  someRefused: 4,
  interrupted: 130,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Wrong usage of a command, or an unsuitable file or profile. */
export class UsageError extends FileError {}

/** The service rejected this SQL, to which positions in the error refer. */
class SqlError extends Error {
  constructor(
    readonly sql: string,
    override readonly cause: CdpError,
  ) {
    super(cause.message);
  }
}

/** Lets errors show the place in the SQL, and replaces the service's hint about "params", which is an option here. */
export async function explainingSql<T>(sql: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof CdpError)) throw error;
    const concernsParams = error.code === 'invalid_request' && error.message.includes('"params"');
    const hint = concernsParams ? '"params" are the values of --param, one for each of $1, $2, …' : error.hint;
    throw new SqlError(sql, error.with(error.message, { hint }));
  }
}

/** Ends the command with this exit code. */
export class ExitError extends Error {
  constructor(
    readonly exitCode: ExitCode,
    message: string,
    override readonly cause?: unknown,
  ) {
    super(message);
  }
}

/** The error for a field of an operator's request, in the words of the command that has an option of the same name. */
export function inOptions(error: unknown, options: readonly Pick<Option, 'long'>[]): unknown {
  if (!(error instanceof EngineError)) return error;
  const inWords = (message: string): string =>
    message.replace(/^(?:body|query)\.([a-z_]+)(?= )/, (field, name: string) => {
      const option = `--${name.replaceAll('_', '-')}`;
      return options.some(({ long }) => long === option) ? option : field;
    });
  const { code, message, hint, errors } = error;
  return new EngineError(code, inWords(message), {
    hint,
    errors: errors?.map((place) => ({ ...place, message: inWords(place.message) })),
  });
}

/** Codes after which a later attempt may succeed. */
const UNREACHABLE: readonly CdpErrorCode[] = [
  'network_error',
  'unexpected_answer',
  'overloaded',
  'database_unavailable',
  'disk_full',
  'rate_limited',
  'outcome_unknown',
];

export function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
  if (error instanceof FileError || error instanceof ConfigError) return EXIT.usage;
  if (error instanceof ExitError) return error.exitCode;
  if (error instanceof EngineError) return error.status === 400 ? EXIT.usage : EXIT.refused;
  if (error instanceof SqlError) return exitCodeOf(error.cause);
  if (!(error instanceof CdpError)) return EXIT.refused;
  if (error.code === 'aborted') return EXIT.interrupted;
  return UNREACHABLE.includes(error.code) ? EXIT.unreachable : EXIT.refused;
}

/**
 * The lines for standard error: code and message, the place in the SQL, hint. Control characters are escaped.
 * @param sql the text to which positions refer
 */
function explain(error: unknown, sql?: string): string[] {
  if (error instanceof SqlError) return explain(error.cause, error.sql);
  if (!(error instanceof CdpError)) {
    const hint = error instanceof FileError || error instanceof EngineError ? error.hint : undefined;
    const cause = error instanceof ExitError && error.cause !== undefined ? explain(error.cause) : [];
    const places = error instanceof EngineError ? placeLines(error.errors) : [];
    const lines = [`cdp: ${messageOf(error)}`, ...places, ...(hint === undefined ? [] : [hint])];
    return [...lines.map(withProgramName).map(printableLines), ...cause];
  }
  const { code, message, hint, errors, errorCount, values, requestId, postgres } = error;
  const position = postgres?.position;
  const unlisted = errorCount - errors.length;
  return [
    `cdp: ${code}: ${message}`,
    ...placeLines(errors),
    ...(errorCount > 1 && unlisted > 0 ? [`  and ${unlisted} more`] : []),
    ...values.map(({ value, rows }) => `  ${JSON.stringify(value)}: ${counted(rows, 'row')}`),
    ...(sql === undefined || position === undefined ? [] : errorPlace(sql, position, process.stderr.columns)),
    ...(postgres?.detail === undefined ? [] : [postgres.detail]),
    // Many messages contain their hint.
    ...(hint === undefined || message.includes(hint) ? [] : [`Hint: ${hint}`]),
    ...(error.status === 401 ? [tokenHint(code)] : []),
    ...(code === 'internal' && requestId !== undefined ? [`Request: ${requestId}`] : []),
  ].map(printableLines);
}

/** The environment variable with the token of this command; undefined if it is that of a profile. */
let tokenVariable: string | undefined;

/** Lets errors about the token name the variable, because logging in would not replace it. */
export function useTokenOf(variable: string): void {
  tokenVariable = variable;
}

function tokenHint(code: CdpErrorCode): string {
  const isExpired = code === 'token_expired';
  if (tokenVariable !== undefined)
    return `${tokenVariable} ${isExpired ? 'has an expired token' : 'is not a token of this service'}: replace or unset it`;
  return `${isExpired ? '' : 'Is this a token of this service? '}Log in with another one: ${PROGRAM} login`;
}

/** Only if the first line cannot name them all. */
const placeLines = (errors: readonly ErrorDetail[] = []): string[] =>
  errors.length > 1 ? errors.map(({ message }) => `  ${message}`) : [];

/** Colors the first line of an error; the others explain it. */
export const inRed = (text: string): string => text.replace(/^cdp: .*/, (line) => colored(process.stderr, 'red', line));

/** @param sql the text to which positions refer */
export const printError = (error: unknown, sql?: string): void =>
  void process.stderr.write(
    inRed(
      explain(error, sql)
        .map((line) => `${line}\n`)
        .join(''),
    ),
  );

const ELLIPSIS = '...';

/**
 * The line of the SQL with the error, and a caret below its place.
 * @param position counts characters from 1, as Postgres does
 * @param columns of the terminal: a longer line is cut on both sides of the place
 */
export function errorPlace(sql: string, position: number, columns = Infinity): string[] {
  const before = [...sql].slice(0, position - 1).join('');
  const lines = before.split('\n');
  const label = `LINE ${lines.length}: `;
  const room = columns - label.length;
  const onScreen = (text: string): string => printable(text.replaceAll('\t', ' '));
  let left = onScreen(lines.at(-1) ?? '');
  let right = onScreen((sql.slice(before.length).split('\n')[0] ?? '').trimEnd());
  if (widthOf(left) + widthOf(right) > room) {
    const leftRoom = Math.max(ELLIPSIS.length + 1, Math.floor((room * 2) / 3));
    if (widthOf(left) > leftRoom) left = ELLIPSIS + lastCells(left, leftRoom - ELLIPSIS.length);
    const rightRoom = Math.max(ELLIPSIS.length + 1, room - widthOf(left));
    if (widthOf(right) > rightRoom) right = firstCells(right, rightRoom - ELLIPSIS.length) + ELLIPSIS;
  }
  return [label + left + right, ' '.repeat(label.length + widthOf(left)) + '^'];
}

const reversed = (text: string): string => [...text].reverse().join('');

const lastCells = (text: string, cells: number): string => reversed(firstCells(reversed(text), cells));
