/** How a command for people with a token ends: its exit code, and what it says when something went wrong. */
import { CdpError, type CdpErrorCode } from '../../client/error.js';

export const EXIT = {
  done: 0,
  /** The service refused what was asked, or a file cannot be read or written. */
  refused: 1,
  usage: 2,
  /** No answer of the service: nothing listens there, the network is down, or it stayed overloaded. */
  unreachable: 3,
  /** An import is done, but some of its records were refused. */
  someRefused: 4,
  interrupted: 130,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Wrong use of a command, or settings that do not fit. */
export class UsageError extends Error {
  constructor(
    message: string,
    readonly hint?: string,
  ) {
    super(message);
  }
}

/** Ends the command with a code of its own. */
export class Ending extends Error {
  constructor(
    readonly exitCode: ExitCode,
    message: string,
    override readonly cause?: unknown,
  ) {
    super(message);
  }
}

/** Codes after which another try, later, may work. */
const UNREACHABLE: readonly CdpErrorCode[] = [
  'network_error',
  'unexpected_answer',
  'overloaded',
  'database_unavailable',
  'rate_limited',
  'outcome_unknown',
];

/**
 * Runs a command to its end: says on standard error what went wrong, and sets the exit code of the process.
 * @param sql what positions in an error count in
 */
export async function ending(work: () => Promise<ExitCode | void>, sql?: () => string | undefined): Promise<void> {
  try {
    process.exitCode = (await work()) ?? EXIT.done;
  } catch (error) {
    process.exitCode = exitCodeOf(error);
    process.stderr.write(
      explain(error, sql?.())
        .map((line) => `${line}\n`)
        .join(''),
    );
  }
}

function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof UsageError) return EXIT.usage;
  if (error instanceof Ending) return error.exitCode;
  if (!(error instanceof CdpError)) return EXIT.refused;
  if (error.code === 'aborted') return EXIT.interrupted;
  return UNREACHABLE.includes(error.code) ? EXIT.unreachable : EXIT.refused;
}

/** What stands on standard error: code and message, hint, and the place in the SQL. */
export function explain(error: unknown, sql?: string): string[] {
  if (error instanceof Ending) {
    return [`cdp: ${error.message}`, ...(error.cause === undefined ? [] : explain(error.cause, sql))];
  }
  if (!(error instanceof CdpError)) {
    const hint = error instanceof UsageError ? error.hint : undefined;
    const message = error instanceof Error ? error.message : String(error);
    return [`cdp: ${message}`, ...(hint === undefined ? [] : [hint])];
  }
  const { code, message, hint, errors, errorCount, requestId, postgres } = error;
  const position = postgres?.position;
  const unlisted = errorCount - errors.length;
  return [
    `cdp: ${code}: ${message}`,
    ...(errorCount > 1 ? errors.map((place) => `  ${place.message}`) : []),
    ...(errorCount > 1 && unlisted > 0 ? [`  and ${unlisted} more`] : []),
    ...(sql === undefined || position === undefined ? [] : caret(sql, position)),
    ...(postgres?.detail === undefined ? [] : [postgres.detail]),
    ...(hint === undefined ? [] : [`Hint: ${hint}`]),
    ...(code === 'internal' && requestId !== undefined ? [`Request: ${requestId}`] : []),
  ];
}

/**
 * The line of the SQL with a caret below the place.
 * @param position counts characters from 1, as Postgres does
 */
function caret(sql: string, position: number): string[] {
  const characters = [...sql];
  const before = characters.slice(0, position - 1).join('');
  const start = before.lastIndexOf('\n') + 1;
  const end = sql.indexOf('\n', before.length);
  const label = `LINE ${before.split('\n').length}: `;
  const line = sql.slice(start, end === -1 ? undefined : end).replaceAll('\t', ' ');
  return [label + line.trimEnd(), ' '.repeat(label.length + [...before.slice(start)].length) + '^'];
}
