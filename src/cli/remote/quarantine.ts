/** `cdp quarantine list|show|replay|drop`: manages quarantined records. */
import { Command, InvalidArgumentError } from 'commander';
import { type RawJson, rawJson } from '../../client/json.js';
import type { CallOptions } from '../../client/options.js';
import type { DropOptions, QuarantineFilter, ReplayOptions } from '../../client/quarantine.js';
import { isUuid } from '../../contract/patterns.js';
import type { QuarantinedRecord } from '../../contract/wire/quarantine.js';
import { EXIT, ExitError, UsageError } from '../exit.js';
import { fitting } from '../terminal/grid.js';
import { print } from '../terminal/output.js';
import { countedRows, grouped } from '../terminal/progress.js';
import { clientFromOptions } from './profiles.js';
import {
  conflictOf,
  conflictOptions,
  list as names,
  type ConflictOptions,
  remoteOptions,
  renames,
  requireKeyOf,
} from './remote-options.js';

const ROLLED_BACK = 'Everything was rolled back';

export function quarantineCommand(): Command {
  return new Command('quarantine')
    .description('Manage quarantined records: list, show, replay, drop')
    .addCommand(list())
    .addCommand(show())
    .addCommand(replay())
    .addCommand(drop());
}

const filtered = (command: Command): Command =>
  remoteOptions(
    command
      .option('--table <NAME>', 'Only records for this table')
      .option('--error <CODE>', 'Only records with this error, such as invalid_value')
      .option('--column <NAME>', 'Only records with an error in this column')
      .option('--since <TIME>', 'Only records refused at this time or later')
      .option('--until <TIME>', 'Only records refused before this time')
      .option('--id <ID>', 'Only the record with this id', uuid)
      .option('--json', 'Print JSON'),
  );

function filterOf(command: Command): QuarantineFilter {
  const { table, error, column, since, until, id } = command.opts<QuarantineFilter>();
  const all = { table, error, column, since, until, id };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

function list(): Command {
  const command = filtered(
    new Command('list')
      .description('List refused records, oldest first')
      .option('--group', 'Count them by table, error and column instead, the largest groups first'),
  );
  return command.action(async () => {
    if (command.opts<{ group?: boolean }>().group) return printGroups(command);
    const records = await all((await clientFromOptions(command)).quarantine(filterOf(command)));
    const columns = ['id', 'time', 'table', 'what is wrong'].map((name) => ({ name }));
    print(command, records, fitting(columns, records.map(cellsOf)));
  });
}

async function printGroups(command: Command): Promise<void> {
  const groups = await (await clientFromOptions(command)).quarantineGroups(filterOf(command));
  const columns = ['records', 'table', 'error', 'column', 'for example'].map((name) => ({ name }));
  const cells = groups.map(({ count, table, error, column, columns: several, message }) => [
    ...[grouped(count), table, error, several?.join(', ') ?? column ?? '', message],
  ]);
  print(command, groups, fitting(columns, cells));
}

async function all(stream: AsyncIterable<QuarantinedRecord>): Promise<QuarantinedRecord[]> {
  const records: QuarantinedRecord[] = [];
  for await (const record of stream) records.push(record);
  return records;
}

const cellsOf = ({ id, time, table, errors }: QuarantinedRecord): string[] => [
  id,
  time,
  table,
  errors.map(({ message }) => message).join('; '),
];

function show(): Command {
  const command = new Command('show')
    .description('Print a refused record as it was sent')
    .argument('<ID>', 'ID from cdp quarantine list', uuid);
  return remoteOptions(command.option('--json', 'Print JSON')).action(async (id: string) => {
    const [record] = await all((await clientFromOptions(command)).quarantine({ id }));
    if (record === undefined) throw new ExitError(EXIT.refused, `There is no record ${id} in the quarantine`);
    print(command, record, [
      record.record,
      ...record.errors.map(({ message, hint }) => `  ${message}${hint ? ` (${hint})` : ''}`),
    ]);
  });
}

function replay(): Command {
  const command = conflictOptions(
    filtered(
      new Command('replay')
        .description('Retry the refused records of a table')
        .option('--rename <LIST>', 'Rename keys before storing: old=new,b=c (repeatable)', renames)
        .option('--set <COLUMN=VALUE>', 'Set these columns in every record (repeatable)', values)
        .option('--set-from <LIST>', 'Take the value of another key: timestamp=sent_at,b=c (repeatable)', renames)
        .option(
          '--set-sql <COLUMN=SQL>',
          'Compute a column from the record: "age=record->>\'years\'" (repeatable)',
          texts,
        )
        .option('--drop-key <LIST>', 'Leave out these keys: a,b (repeatable)', keys)
        .option('--record <JSON>', 'With --id: store this record in place of it', json)
        .option('--dry-run', 'Roll everything back: show what would be stored'),
    ),
  );
  return command.action(async () => {
    const { table, ...filter } = filterOf(command);
    if (table === undefined) throw new UsageError('--table is missing', 'Records are stored table by table');
    const { rename, set, setFrom, setSql, dropKey, record, dryRun, ...conflict } = command.opts<Replay>();
    if (record !== undefined && filter.id === undefined)
      throw new UsageError('--record needs --id', 'It takes the place of one record');
    requireKeyOf(conflict);
    const result = await (
      await clientFromOptions(command)
    ).replayQuarantine({
      ...filter,
      table,
      ...(rename === undefined ? {} : { rename: Object.fromEntries(rename) }),
      ...(set === undefined ? {} : { set: Object.fromEntries(set) }),
      ...(setFrom === undefined ? {} : { setFrom: Object.fromEntries(setFrom) }),
      ...(setSql === undefined ? {} : { setSql: Object.fromEntries(setSql) }),
      ...(dropKey === undefined ? {} : { drop: dropKey }),
      ...(record === undefined ? {} : { record }),
      ...conflictOf(conflict),
      ...(dryRun === undefined ? {} : { dryRun }),
    });
    const { inserted, updated, ignored, unchanged = 0, refused, errors } = result;
    print(command, result, [
      `${countedRows(inserted)} inserted, ${grouped(updated)} updated, ${grouped(ignored)} ignored${unchanged > 0 ? `, ${grouped(unchanged)} unchanged` : ''}, ${grouped(refused)} refused again${dryRun ? `. ${ROLLED_BACK}` : ''}`,
      ...errors.flatMap(({ id, errors: places }) => places.map(({ message }) => `  ${id}: ${message}`)),
    ]);
    if (refused > 0) process.exitCode = EXIT.someRefused;
    else if (Object.keys(filter).length > 0) requireMatch(inserted + updated + ignored + unchanged);
  });
}

interface Replay extends ConflictOptions, Pick<ReplayOptions, 'dryRun'> {
  rename?: ReadonlyMap<string, string>;
  set?: ReadonlyMap<string, Value>;
  setFrom?: ReadonlyMap<string, string>;
  setSql?: ReadonlyMap<string, string>;
  dropKey?: readonly string[];
  record?: RawJson;
}

type Value = string | boolean | null;

const WORDS: Readonly<Record<string, boolean | null>> = { null: null, true: true, false: false };

/** A literal of JSON, otherwise text: the API also reads numbers from text. */
const valueOf = (text: string): Value => (Object.hasOwn(WORDS, text) ? (WORDS[text] ?? null) : text);

/** @param pair such as `note=a, b` @param before of the same option, given earlier */
function values(pair: string, before: ReadonlyMap<string, Value> = new Map()): Map<string, Value> {
  const [column, text] = divided(pair, before);
  return new Map([...before, [column, valueOf(text)]]);
}

function texts(pair: string, before: ReadonlyMap<string, string> = new Map()): Map<string, string> {
  return new Map([...before, divided(pair, before)]);
}

function divided(pair: string, before: ReadonlyMap<string, unknown>): readonly [string, string] {
  const end = pair.indexOf('=');
  if (end < 1) throw new InvalidArgumentError('Expected COLUMN=VALUE.');
  const column = pair.slice(0, end);
  if (before.has(column)) throw new InvalidArgumentError(`"${column}" has two values.`);
  return [column, pair.slice(end + 1)];
}

const keys = (value: string, before: readonly string[] = []): string[] => [...before, ...names(value)];

/** With all its digits. */
function json(text: string): RawJson {
  try {
    JSON.parse(text);
  } catch {
    throw new InvalidArgumentError('Expected JSON.');
  }
  return rawJson(text);
}

function uuid(id: string): string {
  if (!isUuid(id)) throw new InvalidArgumentError('Expected an ID from cdp quarantine list.');
  return id;
}

function drop(): Command {
  const command = filtered(
    new Command('drop')
      .description('Delete refused records')
      .option('--all', 'Delete all of them')
      .option('--dry-run', 'Only count them'),
  );
  return command.action(async () => {
    const filter = filterOf(command);
    const { all, dryRun } = command.opts<Pick<DropOptions, 'all'> & CallOptions>();
    if (all === undefined && Object.keys(filter).length === 0)
      throw new UsageError('Say which records to delete', 'Add an option such as --table, or --all');
    const which = { ...filter, ...(all === undefined ? {} : { all }) };
    const deleted = await (
      await clientFromOptions(command)
    ).dropQuarantine(which, dryRun === undefined ? {} : { dryRun });
    print(command, { deleted }, [
      `${countedRows(deleted)} deleted from the quarantine${dryRun ? `. ${ROLLED_BACK}` : ''}`,
    ]);
    if (all === undefined) requireMatch(deleted);
  });
}

/** A misspelt filter must not look like work that is done. @throws ExitError */
function requireMatch(records: number): void {
  if (records === 0) throw new ExitError(EXIT.refused, 'The filter matches no record in the quarantine');
}
