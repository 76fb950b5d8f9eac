/** Says what an import has chosen: format, columns, types, and with `--dry-run` the calls that it would make. */
import type { Table } from '../../contract/wire/tables.js';
import { grid } from '../remote/grid.js';
import { EXIT, type ExitCode } from '../remote/outcome.js';
import { firstCells, printable, widthOf } from '../remote/terminal-text.js';
import { labelOf } from './input.js';
import { encoder } from './plan.js';
import { formatName, missingColumns, type Prepared, tableFor } from './prepare.js';

const lines = (text: readonly string[]): string => text.map((line) => `${line}\n`).join('');

/** Some heads are whole sentences, and would leave no room for what was made of them. */
const HEAD_CELLS = 40;

function shortened(head: string): string {
  const shown = printable(head);
  return widthOf(shown) <= HEAD_CELLS ? shown : `${firstCells(shown, HEAD_CELLS - 1)}…`;
}

/** On standard error: standard output belongs to the result. */
export function showPlan({ plan: { files }, warnings }: Prepared): void {
  for (const { path, format, mappings } of files) {
    const hasReasons = mappings.some(({ reason }) => reason !== undefined);
    const rows = mappings.map(({ head, column, type, reason }) => {
      return [shortened(head), column ?? '(left out)', type ?? '', ...(hasReasons ? [reason ?? ''] : [])];
    });
    const heads = [{ name: 'field' }, { name: 'column' }, { name: 'type' }, ...(hasReasons ? [{ name: 'why' }] : [])];
    const table = rows.length === 0 ? ['no records'] : grid(heads, rows);
    process.stderr.write(lines([printable(`${labelOf(path)}: ${formatName(format)}`), ...table]));
  }
  process.stderr.write(lines(warnings));
}

export function showDryRun(name: string, prepared: Prepared, table: Table | undefined): ExitCode {
  showPlan(prepared);
  const { plan, first, opened } = prepared;
  const calls: [string, string][] = [];
  if (table === undefined) calls.push(['POST /api/cdp/schema/table', JSON.stringify(tableFor(name, plan), null, 2)]);
  else {
    for (const column of missingColumns(plan, table)) {
      calls.push([`POST /api/cdp/schema/table/${name}/column`, JSON.stringify(column)]);
    }
  }
  plan.files.forEach(({ format, mappings }, i) => {
    const encode = encoder(format.kind, mappings, plan.reading);
    const records = (first[i] ?? []).map((record) => `  ${encode(record).json}`);
    calls.push([`POST /api/cdp/data/${name}`, `[\n${records.join(',\n')}\n]`]);
  });
  process.stdout.write(lines(calls.flatMap(([call, body]) => [call, body])));
  for (const source of opened) source?.input.close();
  return EXIT.done;
}
