/**
 * The insert of a caller who may only append, and learns nothing about what is stored. What this service itself finds wrong in
 * a record is told, as to anybody: it follows from the record and the columns. What only Postgres can refuse may depend on
 * stored rows (a unique value, a foreign key, a check that calls a function, a trigger): such records go to the quarantine,
 * where the project finds them, and the answer is that of records that were stored.
 */
import { EngineError, type ErrorCode } from '../../contract/errors.js';
import { counted } from '../../contract/message-text.js';
import type { AppendResponse } from '../../contract/wire/batch.js';
import type { Project } from '../../db/project.js';
import { arrayOfRecords, type Inserted, type RecordsBody } from './batch.js';
import { insertRecords, type InsertOptions } from './insert.js';

type StoreOptions = Omit<InsertOptions, 'returnIds' | 'upsert'>;

interface AppendOptions extends StoreOptions {
  /** Called with the number of records before any is stored. */
  readonly count: (records: number) => Promise<void>;
}

/** @throws EngineError as {@link insertRecords}, but none that depends on stored rows; those of `count` */
export async function appendRecords(
  project: Project,
  tableName: string,
  body: Buffer,
  { count, ...others }: AppendOptions,
): Promise<{ response: AppendResponse; replayed: boolean }> {
  const records = others.throttle.charge(project.id, () => recordsIn(body));
  await count(records);
  const { replayed } = await storeOrQuarantine(project, tableName, arrayOfRecords(body), others);
  return { response: accepted(records), replayed };
}

/**
 * Stores records as a caller may who only appends: what Postgres refuses goes to the quarantine.
 * @param body may be read twice
 * @returns what the caller must not see
 * @throws EngineError as {@link appendRecords}
 */
export function storeOrQuarantine(
  project: Project,
  tableName: string,
  body: RecordsBody,
  options: StoreOptions,
): Promise<Inserted> {
  const store = (quarantine: boolean) =>
    insertRecords(project, tableName, body, { ...options, quarantine, returnIds: false, upsert: null });
  return store(options.quarantine).catch((error: unknown) => {
    if (!isRefusedByPostgres(error)) throw error;
    return store(true);
  });
}

export const accepted = (records: number): AppendResponse => ({
  success: true,
  accepted_rows: records,
  message: `${counted(records, 'record')} accepted`,
});

const ABOUT_RECORDS: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'constraint_violation',
  'invalid_value',
  'row_too_large',
  'unique_violation',
]);

/** The service's own errors have nothing of Postgres. */
const isRefusedByPostgres = (error: unknown): boolean =>
  error instanceof EngineError && error.postgres !== undefined && ABOUT_RECORDS.has(error.code);

const [QUOTE, COMMA, BACKSLASH] = [0x22, 0x2c, 0x5c];
const OPENING = new Set([0x5b, 0x7b]);
const CLOSING = new Set([0x5d, 0x7d]);

/** The items of a JSON array. If the text is none, any number: then it is refused. */
function recordsIn(json: Buffer): number {
  let depth = 0;
  let commas = 0;
  for (let i = 0; i < json.length; i++) {
    const byte = json[i] ?? 0;
    if (byte === QUOTE) {
      for (i++; i < json.length && json[i] !== QUOTE; i++) if (json[i] === BACKSLASH) i++;
    } else if (OPENING.has(byte)) depth++;
    else if (CLOSING.has(byte)) depth--;
    else if (byte === COMMA && depth === 1) commas++;
  }
  return commas + 1;
}
