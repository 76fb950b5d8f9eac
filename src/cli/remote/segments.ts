/** `cdp segment save|list|show|run|members|pause|resume|delete`: the keys that a query yields, kept as members. */
import { Command, InvalidArgumentError } from 'commander';
import type { Segment, SegmentBody } from '../../contract/wire/segments.js';
import { abortOnSignals } from '../signals.js';
import { fitting } from '../terminal/grid.js';
import { explainingSql } from '../exit.js';
import { print, printLines } from '../terminal/output.js';
import { countedRows } from '../terminal/progress.js';
import { exportRows, fileOptions, type FileOptions } from './export.js';
import { clientFromOptions } from './profiles.js';
import { remoteOptions } from './remote-options.js';
import { listLines, named, nextOf, runLines, savedOf, savedSql, saving, shownLines } from './timed.js';

export function segmentCommand(): Command {
  return new Command('segment')
    .description('Keep the keys that a query yields as members of a segment, and who enters and leaves')
    .addCommand(save())
    .addCommand(list())
    .addCommand(show())
    .addCommand(run())
    .addCommand(members())
    .addCommand(pause())
    .addCommand(resume())
    .addCommand(remove());
}

function save(): Command {
  const command = saving(
    'Make or replace a segment; what is not given has its default',
    'One query with a column "key"',
  ).option('--max-change <PERCENT>', 'Refuse a run that changes more of the members (default: none)', percent);
  return remoteOptions(command).action(async (name: string, argument: string | undefined) => {
    const { maxChange } = command.opts<{ maxChange?: number }>();
    const sql = await savedSql(command, argument, 'SELECT customer AS key FROM');
    const body: SegmentBody = {
      sql,
      ...savedOf(command),
      ...(maxChange === undefined ? {} : { max_change: maxChange }),
    };
    const client = await clientFromOptions(command);
    const segment = await explainingSql(sql, () => client.segments.save(name, body));
    print(command, segment, [`Segment ${name} saved, ${guardOf(segment)}; ${nextOf(segment)}`]);
  });
}

const guardOf = ({ max_change: most }: Segment): string =>
  most === null ? 'without a guard' : `at most ${most} % change`;

function percent(value: string): number {
  if (!/^\d+(\.\d+)?%?$/.test(value)) throw new InvalidArgumentError('Expected a percentage, such as 20.');
  return Number.parseFloat(value);
}

function list(): Command {
  const command = new Command('list')
    .description('List the segments, with the last run of each')
    .option('--json', 'Print JSON');
  return remoteOptions(command).action(async () => {
    const segments = await (await clientFromOptions(command)).segments.list();
    print(command, segments, listLines('segment', segments));
  });
}

function show(): Command {
  const command = named('show', 'Show a segment with its last runs');
  return remoteOptions(command).action(async (name: string) => {
    const segment = await (await clientFromOptions(command)).segments.get(name);
    print(command, segment, shownLines(segment, guardOf(segment), 'changes'));
  });
}

function run(): Command {
  const command = named('run', 'Find the members of a segment now, whether or not it is paused')
    .option('--force', 'Also if more members change than --max-change allows')
    .option('--dry-run', 'Change nothing, and print how many members would change');
  return remoteOptions(command).action(async (name: string) => {
    const { force, dryRun } = command.opts<{ force?: true; dryRun?: true }>();
    const options = { ...(force && { force }), ...(dryRun && { dryRun }) };
    const answer = await (await clientFromOptions(command)).segments.run(name, options);
    print(command, answer, runLines('segment', name, answer, 'change'));
  });
}

/** As many as a terminal shows; a file has all. */
const SHOWN = 1_000;

const MEMBERS = 'SELECT key, entered_at FROM segment_members WHERE segment = $1 ORDER BY key';
/** The first run makes the table. */
const NOBODY = 'SELECT NULL::text AS key, NULL::timestamptz AS entered_at WHERE $1::text IS NULL';

function members(): Command {
  const command = fileOptions(
    new Command('members')
      .description('Print the members of a segment by key, or write all to a file: CSV, NDJSON, JSON or Parquet')
      .argument('<NAME>'),
  );
  return remoteOptions(command).action(async (name: string) => {
    const { output, format } = command.opts<Partial<FileOptions>>();
    const { segments } = await clientFromOptions(command);
    const first: string[][] = [];
    let isMore = false;
    const wanted = output === undefined && format === undefined ? SHOWN : 1;
    for await (const { key, entered_at: at } of segments.members(name)) {
      isMore = first.length === wanted;
      if (isMore) break;
      first.push([key, at]);
    }
    if (wanted === 1) {
      const sql = first.length === 0 ? NOBODY : MEMBERS;
      const options = { ...command.opts<FileOptions>(), output: output ?? '-', param: [name], timeout: 60_000 };
      return abortOnSignals((signal) => exportRows(command, sql, options, signal));
    }
    const heads = ['key', 'entered at'].map((head) => ({ name: head }));
    const count = countedRows(first.length);
    printLines([...fitting(heads, first), isMore ? `(the first ${count}; all with -o FILE)` : `(${count})`]);
  });
}

function pause(): Command {
  const command = named('pause', 'Let a segment wait until it is resumed');
  return remoteOptions(command).action(async (name: string) => {
    const segment = await (await clientFromOptions(command)).segments.pause(name);
    print(command, segment, [`Segment ${name} paused`]);
  });
}

function resume(): Command {
  const command = named('resume', 'Resume a segment from its next time on');
  return remoteOptions(command).action(async (name: string) => {
    const segment = await (await clientFromOptions(command)).segments.resume(name);
    print(command, segment, [`Segment ${name} resumed; ${nextOf(segment)}`]);
  });
}

function remove(): Command {
  const command = named('delete', 'Delete a segment with its members and runs; its changes stay');
  return remoteOptions(command).action(async (name: string) => {
    await (await clientFromOptions(command)).segments.delete(name);
    print(command, { segment: name }, [`Segment ${name} deleted`]);
  });
}
