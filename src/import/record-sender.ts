/** Sends the records of an import as a stream, from where its journal says that it ended. */
import type { CdpClient } from '../client/client.js';
import { CdpError } from '../client/error.js';
import type { StoreOptions } from '../client/insert.js';
import type { StreamAnswer, StreamPlace } from '../client/record-stream.js';
import type { ErrorDetail } from '../contract/errors.js';
import { FileError } from './file-error.js';
import type { Journal, Of, StreamOutcome } from './journal.js';
import type { NumberedRecord } from './record-reader.js';
import type { EncodedRecord } from './refused-lines.js';

/** A record that no stream contains, and why. */
export interface RefusedRecord {
  number: number;
  file: string;
  record: EncodedRecord;
  errors: readonly ErrorDetail[];
}

interface SenderOptions {
  client: CdpClient;
  table: string;
  storing: StoreOptions;
  /** Ends a request at once. */
  signal: AbortSignal;
  /**
   * Saves the records, and their numbers in the journal.
   * @param isOfService the service has refused them, so that they may be in the stream: it goes on when they are saved
   */
  onRefused: (of: Of, refused: readonly RefusedRecord[], isOfService: boolean) => void | Promise<void>;
}

/** Maximum difference expected between the clocks of the service and of this machine. */
const CLOCKS_DIFFER_MS = 3_600_000;
/** How long a transaction is waited for that an earlier process has begun. */
const RUNNING_MS = 30_000;

export class RecordSender {
  retries = 0;

  constructor(
    private readonly journal: Journal,
    private readonly options: SenderOptions,
  ) {}

  /**
   * Sends what the journal does not have.
   * @param groupsFrom the records from one on
   * @param stop ends the stream: what was sent is stored
   * @returns whether all records were sent
   * @throws CdpError; the errors of the journal and of the file
   */
  async send(
    of: Of,
    groupsFrom: (from: number) => AsyncGenerator<readonly NumberedRecord[], void>,
    stop?: AbortSignal,
  ): Promise<boolean> {
    const { journal } = this;
    const { client, table, storing, signal, onRefused } = this.options;
    const place = await placeOf(client, journal, table, of);
    const { from, part } = journal.stateOf(of);
    const groups = this.sendable(of, groupsFrom(from));
    /** Lines are saved in order; what follows an answer waits for them. */
    let saved = Promise.resolve();
    const save = (line: Parameters<Journal['add']>[0]) =>
      (saved = saved.then(() => journal.add(of === undefined ? line : { ...line, of })));
    const stream = client.recordStream<NumberedRecord>(
      table,
      groups,
      {
        keyOf: (number) => journal.keyOf(of, number),
        onPart: (number, first) => save({ part: number, from: first, t: Date.now() }),
        // An error of the journal is thrown by what is saved next.
        onStored: ({ rows }, next) => void save({ stored: rows, next, t: Date.now() }).catch(() => {}),
        onAnswer: (answer, next) => save({ done: journal.stateOf(of).part, next, ...outcomeOf(answer) }),
        onRefused: async (refused) => {
          const list = refused.map(({ record: { index, record, file }, errors }) => ({
            number: index,
            file,
            record,
            errors,
          }));
          await saved;
          await onRefused(of, list, true);
        },
        onRetry: () => void this.retries++,
      },
      { ...storing, signal, ...(stop === undefined ? {} : { stop }) },
    );
    try {
      return await stream.send(place ?? { part: part + 1 });
    } finally {
      await saved;
      // Not awaited: its next record may never come.
      void groups.return().catch(() => {});
    }
  }

  /** Without those that cannot be sent, and those that were refused. With the quarantine, all are sent: it keeps the others. */
  private async *sendable(
    of: Of,
    groups: AsyncGenerator<readonly NumberedRecord[], void>,
  ): AsyncGenerator<NumberedRecord[], void> {
    const { refused } = this.journal.stateOf(of);
    try {
      for await (const group of groups) {
        const known = group.filter(({ index }) => refused.size === 0 || !refused.has(index));
        if (this.options.storing.onError !== undefined) {
          yield known.map(asRefused);
          continue;
        }
        const bad = known.flatMap(({ index, file, record }) =>
          record.problem === undefined ? [] : [{ number: index, file, record, errors: [record.problem] }],
        );
        if (bad.length > 0) await this.options.onRefused(of, bad, false);
        yield bad.length === 0 ? known : known.filter(({ record }) => record.problem === undefined);
      }
    } finally {
      await groups.return();
    }
  }
}

/** One that cannot be sent as a record is sent as what it is: text, or an array, which the service quarantines. */
export const asRefused = <R extends { readonly json: string; readonly record: EncodedRecord }>(one: R): R =>
  one.record.problem !== undefined && one.json.startsWith('{') ? { ...one, json: `[${one.json}]` } : one;

/**
 * Asks the service where the newest stream goes on; undefined if it has an answer.
 * @throws InDoubtError if that is not known any more
 */
export async function placeOf(
  client: CdpClient,
  journal: Journal,
  table: string,
  of?: Of,
): Promise<StreamPlace | undefined> {
  const { isOpen, part, rows, next, t } = journal.stateOf(of);
  if (!isOpen) return undefined;
  const receipt = await settledReceipt(client, table, journal.keyOf(of, part));
  if (receipt.status === 'stored') {
    await journal.add({ stored: receipt.rows ?? 0, next, t: Date.now(), ...(of === undefined ? {} : { of }) });
    return { part, bytes: receipt.bytes ?? 0, isComplete: receipt.complete ?? false };
  }
  if (rows > 0 || Date.parse(receipt.since) > t - CLOCKS_DIFFER_MS) throw new InDoubtError();
  return { part, bytes: 0 };
}

/** Goes on after the last acknowledged record, although some that follow it may be stored. */
export async function forgetDoubt(journal: Journal): Promise<void> {
  const { part, next, rows } = journal.stateOf(undefined);
  await journal.add({ done: part, next, inserted: rows, updated: 0, ignored: 0, unchanged: 0, quarantined: 0 });
}

/** The service has forgotten a stream that has got no answer. */
export class InDoubtError extends FileError {
  constructor() {
    super(
      'The last records got no response and are so old that the service may have forgotten their key; sending them again could store their rows twice',
    );
  }
}

async function settledReceipt(client: CdpClient, table: string, key: string) {
  for (const end = performance.now() + RUNNING_MS; ;) {
    const receipt = await client.receipt(table, key);
    if (receipt.status !== 'running') return receipt;
    if (performance.now() > end) throw new CdpError('request_in_flight', 'Another process is sending this import');
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

const outcomeOf = (answer: StreamAnswer): StreamOutcome => ({
  inserted: answer.inserted_rows,
  updated: answer.updated_rows ?? 0,
  ignored: answer.ignored_rows ?? 0,
  unchanged: answer.unchanged_rows ?? 0,
  quarantined: answer.quarantined_rows ?? 0,
});
