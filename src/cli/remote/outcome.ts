/** How a command for people with a token ends: its exit code, and what it says when something went wrong. */
import { CdpError, type CdpErrorCode } from '../../client/error.js';
import { errorPlace } from './error-place.js';
import { heedOutput } from './output.js';
import { printableLines } from './terminal-text.js';

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
  heedOutput((error) => {
    process.stderr.write(`cdp: Standard output: ${error.message}\n`);
    process.exit(EXIT.refused);
  });
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

/** What stands on standard error: code and message, hint, and the place in the SQL. Nothing in it is obeyed by a terminal. */
export function explain(error: unknown, sql?: string): string[] {
  if (error instanceof Ending) {
    return [`cdp: ${printableLines(error.message)}`, ...(error.cause === undefined ? [] : explain(error.cause, sql))];
  }
  if (!(error instanceof CdpError)) {
    const hint = error instanceof UsageError ? error.hint : undefined;
    const message = error instanceof Error ? error.message : String(error);
    return [`cdp: ${printableLines(message)}`, ...(hint === undefined ? [] : [printableLines(hint)])];
  }
  const { code, message, hint, errors, errorCount, requestId, postgres } = error;
  const position = postgres?.position;
  const unlisted = errorCount - errors.length;
  return [
    `cdp: ${code}: ${message}`,
    ...(errorCount > 1 ? errors.map((place) => `  ${place.message}`) : []),
    ...(errorCount > 1 && unlisted > 0 ? [`  and ${unlisted} more`] : []),
    ...(sql === undefined || position === undefined ? [] : errorPlace(sql, position, process.stderr.columns)),
    ...(postgres?.detail === undefined ? [] : [postgres.detail]),
    // Many a message ends with its hint.
    ...(hint === undefined || message.endsWith(hint) ? [] : [`Hint: ${hint}`]),
    ...(error.status === 401 ? ['Is it a token of this service? cdp login keeps another one'] : []),
    ...(code === 'internal' && requestId !== undefined ? [`Request: ${requestId}`] : []),
  ].map(printableLines);
}
