/**
 * Errors that a Citus coordinator passes on from a worker. They name shards (`customers_pkey_102010`) and lack the
 * fields for table and constraint; those of a COPY or an INSERT … SELECT also lack their SQLSTATE. This file converts
 * them to the error that a table on one server would cause, as far as the message allows (`ReportResultError`,
 * `ReportCopyError` in Citus's sources).
 */
import { SQLSTATE } from './sqlstate.js';

/**
 * The functions of Citus that pass on a worker's error (field R of an ErrorResponse). No SQL can imitate their names.
 */
const REPORTERS = new Set(['ReportResultError', 'ReportCopyError', 'ReportConnectionError']);

export const isOfWorker = (routine: string | undefined): boolean => REPORTERS.has(routine ?? '');

/**
 * Names that always end with a shard's number. The name of a check does so only if the check was added after the table
 * was distributed.
 */
const NUMBERED =
  /\b(?:(?:relation|table|index|unique constraint|exclusion constraint|foreign key constraint) "[^"]+_(\d{5,})"|check constraint "[^"]+_(\d{5,})" of relation)/g;

function withoutShards(text: string): string {
  const numbers = Array.from(text.matchAll(NUMBERED), ([, number, ofCheck]) => number ?? ofCheck ?? '');
  return numbers.reduce((changed, number) => changed.replaceAll(`_${number}"`, '"'), text);
}

/** Postgres's English messages, with their SQLSTATE and the fields they contain. */
const VIOLATIONS: readonly (readonly [RegExp, string])[] = [
  [/^null value in column "(?<c>.+)" of relation "(?<t>.+)" violates not-null constraint$/, '23502'],
  [/^.+ on table "(?<t>[^"]+)" violates foreign key constraint "(?<n>[^"]+)"/, SQLSTATE.FOREIGN_KEY_VIOLATION],
  [/^duplicate key value violates unique constraint "(?<n>.+)"$/, SQLSTATE.UNIQUE_VIOLATION],
  [/^new row for relation "(?<t>.+)" violates check constraint "(?<n>.+)"$/, '23514'],
  [/^conflicting key value violates exclusion constraint "(?<n>.+)"$/, '23P01'],
];

/** The connection to a worker was lost during a statement. Citus has no SQLSTATE for this. */
const BROKEN = 'failure on connection marked as essential';
const CONNECTION_FAILURE = '08006';

/** @param fields of an ErrorResponse, by their one-letter codes (Postgres manual 54.8) */
export function asOnOneServer(fields: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  const message = fields.get('M') ?? '';
  if (fields.get('C') === SQLSTATE.INTERNAL_ERROR && message.startsWith(BROKEN)) {
    return new Map([...fields, ['C', CONNECTION_FAILURE]]);
  }
  if (!isOfWorker(fields.get('R'))) return fields;
  const changed = new Map(fields);
  for (const letter of ['M', 'D', 'H']) {
    const text = fields.get(letter);
    if (text !== undefined) changed.set(letter, withoutShards(text));
  }
  for (const [pattern, sqlstate] of VIOLATIONS) {
    const found = pattern.exec(changed.get('M') ?? '');
    if (found === null) continue;
    if (fields.get('C') === SQLSTATE.INTERNAL_ERROR) changed.set('C', sqlstate);
    for (const [letter, name] of Object.entries(found.groups ?? {})) changed.set(letter, name);
    break;
  }
  return changed;
}
