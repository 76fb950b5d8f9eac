/** Where each field of a file goes: the columns, what must be made before, and records as the JSON that is sent. */
import type { ColumnType } from '../../contract/column-types.js';
import { COLUMN_TYPES } from '../../contract/column-types.js';
import type { ErrorPlace } from '../../contract/errors.js';
import type { Table } from '../../contract/wire/tables.js';
import { UsageError } from '../remote/outcome.js';
import { cellWriter, isJson, type Notation } from './cell-values.js';
import { columnNames, matchingColumn, needsQuotes } from './column-names.js';
import { fitsHeads } from './csv.js';
import { membersOf, textOf } from './json-members.js';
import type { FileRecord } from './source.js';
import type { Field } from './survey.js';
import type { DateOrder } from './timestamps.js';

/** A field of the file and its column. */
export interface Mapping {
  readonly head: string;
  /** null: left out. */
  readonly column: string | null;
  /** As the contract or Postgres calls it; null where nothing tells it. */
  readonly type: string | null;
  /** Whether FLOAT would hold its integers, too. */
  readonly isDouble?: boolean;
  /** Of its dates, where they can be read in one way only. */
  readonly dates?: DateOrder;
  /** Why this column and type. */
  readonly reason?: string;
}

export interface PlanOptions {
  /** By the head or the name of the column. */
  types: ReadonlyMap<string, ColumnType>;
  skip: ReadonlySet<string>;
  keepNames: boolean;
}

/**
 * The columns of a new table, or of one that is there (undefined: no such table).
 * @param isWhole whether the guesses know every record
 */
export function planColumns(
  { fields, isWhole }: { fields: readonly Field[]; isWhole: boolean },
  table: Table | undefined,
  options: PlanOptions,
): Mapping[] {
  const existing = table?.columns.map(({ name }) => name) ?? [];
  const hasIds = fields.some(({ head, guess }) => head.toLowerCase() === 'id' && guess.isUuid);
  const matched = fields.map(({ head, guess }) => {
    const column = matchingColumn(head, existing);
    // Its values could be no ids of records.
    return column === 'id' && !guess.isUuid ? undefined : column;
  });
  const names = columnNames(
    fields.map(({ head }) => head),
    { keep: options.keepNames, hasIds },
  );
  const used = new Set<string>();
  return fields.map(({ head, guess }, i): Mapping => {
    const match = matched[i];
    const column = match !== undefined && !used.has(match) ? match : (names[i] ?? head);
    used.add(column);
    // What a delimiter at the end of each line leaves.
    if (head === '' && guess.isEmpty && isWhole)
      return { head, column: null, type: null, reason: 'no name, no values' };
    if (options.skip.has(head) || options.skip.has(column)) return { head, column: null, type: null };
    const told = options.types.get(head) ?? options.types.get(column);
    const actual = table?.columns.find(({ name }) => name === column)?.type;
    const type = actual ?? (column === 'id' ? 'uuid' : (told ?? (guess.isEmpty ? null : guess.type)));
    const dates = guess.dates;
    const reason =
      actual === undefined ? whyNew(head, column, told === undefined ? guess.reason : undefined) : undefined;
    return {
      head,
      column,
      type,
      isDouble: guess.isDouble,
      ...(dates === undefined ? {} : { dates }),
      ...(reason === undefined ? {} : { reason }),
    };
  });
}

function whyNew(head: string, column: string, ofType: string | undefined): string | undefined {
  const reasons = [
    ...(ofType === undefined ? [] : [ofType]),
    ...(head.toLowerCase() === 'id' && column !== 'id' ? ['id is for UUIDs'] : []),
    ...(needsQuotes(column) ? [`in SQL: "${column}"`] : []),
  ];
  return reasons.length === 0 ? undefined : reasons.join('; ');
}

/** @param list as `a=TEXT,b=INTEGER` @throws UsageError */
export function parseTypes(list: string): Map<string, ColumnType> {
  return new Map(
    list.split(',').map((pair) => {
      const at = pair.lastIndexOf('=');
      const type = COLUMN_TYPES.find(
        (known) =>
          known ===
          pair
            .slice(at + 1)
            .trim()
            .toUpperCase(),
      );
      if (at < 1 || type === undefined) {
        throw new UsageError(
          `--types does not understand "${pair}"`,
          `It takes a=TEXT,b=INTEGER; the types are ${COLUMN_TYPES.join(', ')}`,
        );
      }
      return [pair.slice(0, at).trim(), type];
    }),
  );
}

/** A record as it is sent; or why it cannot be, with what is left of it for whoever corrects it. */
export interface Encoded {
  readonly line: number;
  /** JSON. */
  readonly json: string;
  readonly problem?: ErrorPlace;
}

export type Encode = (record: FileRecord) => Encoded;

export function encoder(
  kind: 'delimited' | 'ndjson' | 'json',
  mappings: readonly Mapping[],
  notation: Notation,
): Encode {
  return kind === 'delimited' ? delimitedEncoder(mappings, notation) : jsonEncoder(mappings);
}

function delimitedEncoder(mappings: readonly Mapping[], notation: Notation): Encode {
  const columns = mappings.map(({ column, type, dates = notation.dates }) => ({
    column,
    isJsonb: type === 'JSONB',
    key: `${JSON.stringify(column)}:`,
    write: cellWriter(type ?? 'TEXT', { ...notation, ...(dates === undefined ? {} : { dates }) }),
  }));
  return ({ line, cells = [] }) => {
    if (!fitsHeads(cells, columns.length)) {
      const message = `The record has ${cells.length} fields, and the head ${columns.length}`;
      return { line, json: JSON.stringify(cells), problem: { error: 'invalid_value', message } };
    }
    let json = '';
    let problem: ErrorPlace | undefined;
    for (let i = 0; i < columns.length; i++) {
      const { column, isJsonb, key, write } = columns[i] as (typeof columns)[number];
      const cell = cells[i] as string | null;
      // NULL is no id: the service makes one.
      if (column === null || (cell === null && column === 'id')) continue;
      if (cell !== null && isJsonb && !isJson(cell)) {
        problem ??= { column, error: 'invalid_value', message: `Column "${column}" takes JSON, and this is none` };
      }
      json += `${json === '' ? '{' : ','}${key}${cell === null ? 'null' : write(cell)}`;
    }
    const whole = json === '' ? '{}' : `${json}}`;
    return problem === undefined ? { line, json: whole } : { line, json: whole, problem };
  };
}

function jsonEncoder(mappings: readonly Mapping[]): Encode {
  const columns = new Map(mappings.map(({ head, column }) => [head, column]));
  const isSame = mappings.every(({ head, column }) => head === column);
  return ({ line, text = '' }) => {
    const isObject = /^\s*\{/.test(text) && isJson(text);
    if (!isObject) {
      const message = isJson(text) ? 'A record is a JSON object' : 'This is not JSON';
      return { line, json: JSON.stringify(text), problem: { error: 'invalid_value', message } };
    }
    if (isSame) return { line, json: text };
    const members = (membersOf(text) ?? []).flatMap(([head, node]) => {
      const column = columns.has(head) ? columns.get(head) : head;
      return column === null ? [] : [`${JSON.stringify(column)}:${textOf(node)}`];
    });
    return { line, json: `{${members.join(',')}}` };
  };
}
