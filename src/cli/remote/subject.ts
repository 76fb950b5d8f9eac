/** `cdp subject show|declare|find|export|erase|verify`: the rights of people whose data a project keeps. */
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { counted } from '../../contract/message-text.js';
import type { Declaration, Erasure, ErasureOutcome, SubjectBody } from '../../contract/wire/subjects.js';
import { replaceFile } from '../../files.js';
import { EXIT, ExitError, UsageError } from '../exit.js';
import { print, printChunks } from '../terminal/output.js';
import { clientFromOptions } from './profiles.js';
import { remoteOptions, whole } from './remote-options.js';
import { linkOf, readReceipt, verifyReceipt } from './verify-receipt.js';

export function subjectCommand(): Command {
  return new Command('subject')
    .description('Find, hand over and erase what a project keeps about a person')
    .addCommand(show())
    .addCommand(declare())
    .addCommand(find())
    .addCommand(exportCommand())
    .addCommand(erase())
    .addCommand(verify());
}

function show(): Command {
  const command = new Command('show')
    .description('Show which columns identify people, and what is not covered')
    .option('--proposal', 'Propose a declaration instead, as JSON for cdp subject declare')
    .option('--json', 'Print JSON');
  return remoteOptions(command).action(async () => {
    const client = await clientFromOptions(command);
    if (command.opts<{ proposal?: boolean }>().proposal) {
      const { subjects } = await client.proposeSubjects();
      return print(command, { subjects }, [JSON.stringify(subjects ?? {}, null, 2)]);
    }
    const { subjects, problems, not_covered: notCovered, missing_indexes: indexes } = await client.subjects();
    print(command, { subjects, problems, not_covered: notCovered, missing_indexes: indexes }, [
      ...(subjects === null ? ['Nothing is declared'] : Object.entries(subjects).flatMap(kindInWords)),
      ...problems.map(({ problem }) => `Wrong: ${problem}`),
      ...notCovered.map(
        ({ table, columns }) => `Not covered: ${table}${columns.length === 0 ? '' : ` (${columns.join(', ')})`}`,
      ),
      ...indexes.map(({ sql }) => `Faster with: ${sql}`),
    ]);
  });
}

const kindInWords = ([kind, { tables }]: [string, Declaration[string]]): string[] =>
  Object.entries(tables).map(
    ([table, { columns, erase: how }]) =>
      `${kind}: ${table} by ${Object.entries(columns)
        .map(([column, identifier]) => (column === identifier ? column : `${column} (${identifier})`))
        .join(', ')}; ${how === 'delete' ? 'rows are deleted' : `sets ${Object.keys(how.set).join(', ')}`}`,
  );

function declare(): Command {
  const command = new Command('declare')
    .description('Declare which columns identify people, in the place of an earlier declaration')
    .argument('<FILE>', 'JSON, as cdp subject show --proposal prints it')
    .option('--json', 'Print JSON');
  return remoteOptions(command).action(async (file: string) => {
    const given = parsed(await textOf(file), file);
    const { subjects } = (given ?? {}) as { subjects?: Declaration };
    // Also the body of PUT /api/cdp/subjects, as the docs show it.
    const isBody = subjects !== undefined && !('identifiers' in subjects) && Object.keys(given as object).length === 1;
    const declaration = isBody ? subjects : (given as Declaration);
    const { not_covered: notCovered } = await (await clientFromOptions(command)).declareSubjects(declaration);
    print(command, { not_covered: notCovered }, [`Declared; ${counted(notCovered.length, 'table')} not covered`]);
  });
}

const whoOptions = (command: Command): Command =>
  remoteOptions(
    command
      .argument('<IDENTIFIER=VALUE...>', 'Who, such as email=ada@example.com')
      .option('--kind <KIND>', 'The kind of subject that was declared', 'person')
      .option('--max-rows <N>', 'How many rows of a table may match (default: 10000)', whole)
      .option('--joined', 'Go on if the identifiers lead to several people'),
  );

/** @throws UsageError */
function whoOf(command: Command, words: readonly string[]): SubjectBody {
  const { kind, maxRows, joined } = command.opts<{ kind: string; maxRows?: number; joined?: boolean }>();
  const identifiers: Record<string, string[]> = {};
  for (const word of words) {
    const [, name = '', value = ''] = /^([a-z][a-z0-9_]*)=(.+)$/s.exec(word) ?? [];
    if (name === '') throw new UsageError(`"${word}" is not IDENTIFIER=VALUE, such as email=ada@example.com`);
    identifiers[name] = [...(identifiers[name] ?? []), value];
  }
  return {
    [kind]: identifiers,
    ...(maxRows === undefined ? {} : { max_rows: maxRows }),
    ...(joined ? { joined } : {}),
  };
}

function find(): Command {
  const command = new Command('find')
    .description('Find everything about a person')
    .option('--search', 'Also look through every text and JSONB column; slow')
    .option('--json', 'Print JSON, with rows');
  return whoOptions(command).action(async (words: string[]) => {
    const search = command.opts<{ search?: boolean }>().search === true;
    const client = await clientFromOptions(command);
    const found = await client.findSubject(whoOf(command, words), search ? { search } : {});
    const { identifiers, tables, places, joined, searched } = found;
    print(command, found, [
      ...Object.entries(identifiers).map(([name, values]) => `${name}: ${values.join(', ')}`),
      ...tables.map(({ table, row_count: count }) => `${table}: ${counted(count, 'row')}`),
      ...places.map(({ place, count }) => `${place}: ${count}`),
      ...joined.map(({ table, subjects }) => `Several people: ${counted(subjects, 'row')} of ${table}`),
      ...(searched?.found ?? []).map(
        ({ table, column, rows }) => `Found by search: ${table}.${column}, ${counted(rows, 'row')}`,
      ),
      ...(searched?.not_searched ?? []).map((table) => `Not searched: ${table}`),
    ]);
  });
}

function exportCommand(): Command {
  const command = new Command('export').description(
    'Print everything about a person as NDJSON; the last line is the manifest',
  );
  return whoOptions(command).action(async (words: string[]) => {
    const lines = (await clientFromOptions(command)).exportSubject(whoOf(command, words));
    await printChunks(withEnds(lines));
  });
}

async function* withEnds(lines: AsyncIterable<string>): AsyncGenerator<string> {
  for await (const line of lines) yield `${line}\n`;
}

const POLL_MS = 1_000;

function erase(): Command {
  const command = new Command('erase')
    .description('Erase everything about a person, and print the receipt with its nonce')
    .option('--dry-run', 'Do it, show what it did, and roll back')
    .option('--deep', 'Also rewrite tables and statistics, so that no bytes remain; locks the tables')
    .option('--receipt <FILE>', 'Write the receipt into a file; the nonce is printed')
    .option('--json', 'Print JSON');
  return whoOptions(command).action(async (words: string[]) => {
    const options = command.opts<{ dryRun?: boolean; deep?: boolean; receipt?: string }>();
    const client = await clientFromOptions(command);
    const who = whoOf(command, words);
    if (options.dryRun) {
      const { result } = await client.eraseSubject(who, { dryRun: true });
      return print(command, { result }, ['Nothing was erased. It would be:', ...(result ? resultInWords(result) : [])]);
    }
    const response = await client.eraseSubject(who, options.deep ? { deep: true } : {});
    let { erasure } = response;
    if (erasure === undefined) throw new ExitError(EXIT.refused, 'The service did not say what it has begun');
    const isUnderWay = ({ state }: Erasure) => state === 'running' || (state === 'cleaning' && options.deep === true);
    for (; isUnderWay(erasure); await sleep(POLL_MS)) erasure = await client.erasure(erasure.id);
    if (erasure.state === 'failed')
      throw new ExitError(EXIT.refused, `Nothing was erased: ${erasure.error ?? 'unknown'}`);
    const { nonce } = response;
    const { receipt } = erasure;
    if (options.receipt !== undefined && receipt !== null) await replaceFile(options.receipt, `${receipt}\n`, 0o600);
    print(command, { erasure, nonce }, [
      ...(erasure.result === null ? [] : resultInWords(erasure.result)),
      ...(erasure.upkeep?.steps ?? []).map(
        ({ step, ms, problem }) => `${step}: ${problem === null ? `${Math.round(ms)} ms` : `FAILED, ${problem}`}`,
      ),
      options.receipt === undefined ? `Receipt: ${receipt ?? ''}` : `Receipt: ${options.receipt}`,
      `Nonce, stored nowhere else: ${nonce ?? ''}`,
    ]);
  });
}

const resultInWords = ({ tables, others, places, came_meanwhile: meanwhile }: ErasureOutcome): string[] => [
  ...tables.map(({ table, deleted, changed }) => `${table}: ${deleted} deleted, ${changed} changed`),
  ...others.map(
    ({ table, inserted, updated, deleted }) =>
      `${table}, by foreign keys and triggers: ${deleted} deleted, ${updated} changed, ${inserted} inserted`,
  ),
  ...places.map(({ place, count }) => `${place}: ${count}`),
  ...(meanwhile === 0 ? [] : [`${counted(meanwhile, 'row')} came meanwhile, and stayed`]),
];

function verify(): Command {
  const command = new Command('verify')
    .description('Verify a receipt, without the service')
    .argument('<RECEIPT>', 'A file, - for standard input, or the receipt itself')
    .argument('[IDENTIFIER=VALUE...]', 'With --nonce: whether it is about this person')
    .option(
      '--keys <FILE>',
      'The published keys (GET /api/cdp/subjects/keys): the receipt must be signed by one of them',
    )
    .option('--nonce <NONCE>', 'The nonce that came with the receipt')
    .option('--json', 'Print JSON');
  return command.action(async (given: string, words: string[]) => {
    const { keys, nonce } = command.opts<{ keys?: string; nonce?: string }>();
    if (words.length > 0 && nonce === undefined) throw new UsageError('Give the nonce as well: --nonce NONCE');
    const compact = readReceipt(/^[\w-]+\.[\w-]+\.[\w-]+$/.test(given) ? given : await textOf(given));
    const published = keys === undefined ? null : parsed(await textOf(keys), keys);
    const { payload, kid, isPublished } = await verifyReceipt(compact, published);
    const links = words.map((word) => ({ word, isLinked: linkOf(payload, nonce ?? '', word) }));
    print(command, { receipt: payload, key: kid, published: isPublished, links }, [
      `Signed by the key ${kid}${isPublished ? ', which is published' : '. Compare it with the published ones: --keys FILE'}`,
      `${payload.project}, installation ${payload.issuer}: erased at ${payload.erased_at}, transaction ${payload.result.transaction ?? '?'}`,
      ...resultInWords(payload.result),
      ...payload.not_covered.map(({ table }) => `Not covered: ${table}`),
      ...payload.still_held.map(({ what, until }) => `Still held: ${what}${until === null ? '' : ` (${until})`}`),
      ...links.map(({ word, isLinked }) => `${word}: ${isLinked ? 'this receipt is about it' : 'NOT in this receipt'}`),
    ]);
    if (links.some(({ isLinked }) => !isLinked))
      throw new ExitError(EXIT.refused, 'The receipt is not about everybody who was named');
  });
}

async function textOf(file: string): Promise<string> {
  try {
    return await readFile(file === '-' ? '/dev/stdin' : file, 'utf8');
  } catch (error) {
    throw new UsageError(`${file} cannot be read: ${(error as Error).message}`);
  }
}

function parsed(text: string, file: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new UsageError(`${file} is not JSON`);
  }
}
