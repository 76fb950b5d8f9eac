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
import { arrayOfRecords } from './batch.js';
import { insertRecords } from './insert.js';

type AppendOptions = Omit<Parameters<typeof insertRecords>[3], 'returnIds' | 'upsert'> & {
  /** Called with the number of records before any is stored. */
  readonly count: (records: number) => Promise<void>;
};

/** @throws EngineError as {@link insertRecords}, but none that depends on stored rows; those of `count` */
export async function appendRecords(
  project: Project,
  tableName: string,
  body: Buffer,
  { count, ...others }: AppendOptions,
): Promise<{ response: AppendResponse; replayed: boolean }> {
  const records = others.throttle.charge(project.id, () => recordsIn(body));
  await count(records);
  const store = (quarantine: boolean) =>
    insertRecords(project, tableName, arrayOfRecords(body), { ...others, quarantine, returnIds: false, upsert: null });
  const { replayed } = await store(others.quarantine).catch((error: unknown) => {
    if (!isRefusedByPostgres(error)) throw error;
    return store(true);
  });
  const message = `${counted(records, 'record')} accepted`;
  return { response: { success: true, accepted_rows: records, message }, replayed };
}

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
