/** Says what an import has chosen: format, columns, types, and with `--dry-run` the calls that it would make. */
import type { Table } from '../../contract/wire.js';
import { grid } from '../remote/grid.js';
import { EXIT, type ExitCode } from '../remote/outcome.js';
import { printable } from '../remote/terminal-text.js';
import { encoder } from './plan.js';
import { formatName, type ImportPlan, missingColumns, tableFor } from './prepare.js';
import type { Source } from './source.js';

const lines = (text: readonly string[]): string => text.map((line) => `${line}\n`).join('');

/** On standard error: standard output belongs to the result. */
export function showPlan({ files }: ImportPlan): void {
  for (const { path, format, mappings } of files) {
    const rows = mappings.map(({ head, column, type, reason }) => [head, column ?? '(left out)', type, reason ?? '']);
    const heads = [{ name: 'field' }, { name: 'column' }, { name: 'type' }, { name: '' }];
    process.stderr.write(lines([printable(`${path}: ${formatName(format)}`), ...grid(heads, rows)]));
  }
}

export function showDryRun(
  name: string,
  plan: ImportPlan,
  sources: readonly Source[],
  table: Table | undefined,
): ExitCode {
  showPlan(plan);
  const calls: [string, string][] = [];
  if (table === undefined) calls.push(['POST /api/cdp/schema/table', JSON.stringify(tableFor(name, plan), null, 2)]);
  else {
    for (const column of missingColumns(plan, table)) {
      calls.push([`POST /api/cdp/schema/table/${name}/column`, JSON.stringify(column)]);
    }
  }
  sources.forEach(({ sample, format }, i) => {
    const encode = encoder(format.kind, plan.files[i]?.mappings ?? []);
    const records = sample.map((record) => `  ${encode(record).json}`);
    calls.push([`POST /api/cdp/data/${name}`, `[\n${records.join(',\n')}\n]`]);
  });
  process.stdout.write(lines(calls.flatMap(([call, body]) => [call, body])));
  for (const { input, records } of sources) {
    void records.return().catch(() => {});
    if (input.size === null) process.stdin.destroy();
  }
  return EXIT.done;
}
