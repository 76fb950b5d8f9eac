/** Sorts and filters the rows that a result holds, without running its query again. */
import { type Cell, isNull, textOf } from './cells.js';
import type { Condition, Sort } from './conditions.js';
import { comparerOf, faultOf } from './order.js';
import type { HeldRows, Result, ResultColumn } from './result.js';

export interface Arrangement {
  readonly sort: Sort | null;
  readonly conditions: readonly Condition[];
}

export const AS_RETURNED: Arrangement = { sort: null, conditions: [] };

/** The rows of a result in another order, or some of them. */
export function arranged(result: Result, { sort, conditions }: Arrangement): HeldRows {
  if (sort === null && conditions.length === 0) return result;
  const tests = conditions.flatMap((condition) => {
    const at = result.columns.findIndex(({ name }) => name === condition.column);
    const column = result.columns[at];
    return column === undefined ? [] : [{ at, isMet: testOf(condition, column) }];
  });
  const by = result.columns.findIndex(({ name }) => name === sort?.column);
  const type = result.columns[by]?.type ?? '';
  const rows: { readonly row: number; readonly text: string | null }[] = [];
  for (let row = 0; row < result.held; row++) {
    const cells = result.cells(row);
    if (!tests.every(({ at, isMet }) => isMet(cells[at] ?? 'null'))) continue;
    const cell = cells[by] ?? 'null';
    rows.push({ row, text: isNull(cell) ? null : textOf(cell, type) });
  }
  if (by >= 0) {
    const compare = comparerOf(type);
    const direction = sort?.isDescending === true ? -1 : 1;
    rows.sort(({ text: a }, { text: b }) => direction * (a === null || b === null ? nullsLast(a, b) : compare(a, b)));
  }
  return {
    columns: result.columns,
    isComplete: result.isComplete,
    rowCount: result.rowCount,
    held: rows.length,
    cells: (row) => result.cells(rows[row]?.row ?? -1),
  };
}

const nullsLast = (a: string | null, b: string | null): number => Number(a === null) - Number(b === null);

function testOf({ operator, value }: Condition, { type }: ResultColumn): (cell: Cell) => boolean {
  if (operator === 'null') return isNull;
  if (operator === 'not null') return (cell) => !isNull(cell);
  if (operator === 'true' || operator === 'false') return (cell) => cell === operator;
  if (operator === 'contains' || operator === 'starts') {
    const part = operator === 'contains' ? value.toLowerCase() : value;
    return (cell) => {
      if (isNull(cell)) return false;
      const text = textOf(cell, type);
      return operator === 'contains' ? text.toLowerCase().includes(part) : text.startsWith(part);
    };
  }
  const compare = comparerOf(type);
  const wanted = value.trim();
  const meets = (order: number): boolean =>
    ({ '=': order === 0, '<>': order !== 0, '<': order < 0, '<=': order <= 0, '>': order > 0, '>=': order >= 0 })[
      operator
    ];
  const compared = isTextual(type) ? value : wanted;
  return (cell) => (isNull(cell) ? operator === '<>' : meets(compare(textOf(cell, type), compared)));
}

/** Of other types, spaces around a typed value mean nothing. */
const isTextual = (type: string): boolean => /^(text|character|citext|name|)$/i.test(type);

/** Why a condition cannot be met by any value of a column of this type; '' if it can. */
export const conditionFault = ({ operator, value }: Condition, type: string): string =>
  ['=', '<>', '<', '<=', '>', '>='].includes(operator) ? faultOf(value, type) : '';
