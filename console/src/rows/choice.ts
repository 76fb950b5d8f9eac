/** The sort and the conditions of a table's rows, which are part of the address: `#/tables/people?sort=-city`. */
import type { Column } from '../../../src/client/index.js';
import { canSort, type Condition, operatorsOf, type Sort } from '../results/conditions.js';
import { linkTo } from '../route.js';

export interface Choice {
  readonly sort: Sort | null;
  readonly conditions: readonly Condition[];
}

export function withChoice(table: string, { sort, conditions }: Choice): string {
  const query = new URLSearchParams();
  if (sort !== null) query.set('sort', `${sort.isDescending ? '-' : '+'}${sort.column}`);
  for (const { column, operator, value } of conditions)
    query.append('where', JSON.stringify([column, operator, value]));
  return `${linkTo('tables', table)}${query.size === 0 ? '' : `?${query}`}`;
}

/** What fits the columns of the table, and how many parts of the address do not. */
export function choiceIn(query: URLSearchParams, columns: readonly Column[]): Choice & { readonly misfits: number } {
  const typeOf = (name: string) => columns.find((column) => column.name === name)?.type;
  const sort = query.get('sort');
  const type = typeOf(sort?.slice(1) ?? '');
  const isSortable = sort !== null && type !== undefined && canSort(type);
  const wanted = query.getAll('where').map(read);
  const conditions = wanted.filter((condition) => {
    const of = condition === undefined ? undefined : typeOf(condition.column);
    return of !== undefined && condition !== undefined && operatorsOf(of).includes(condition.operator);
  }) as Condition[];
  return {
    sort: isSortable ? { column: sort.slice(1), isDescending: sort.startsWith('-') } : null,
    conditions,
    misfits: wanted.length - conditions.length + Number(sort !== null && !isSortable),
  };
}

function read(text: string): Condition | undefined {
  try {
    const [column, operator, value] = JSON.parse(text) as [unknown, unknown, unknown];
    if (typeof column !== 'string' || typeof operator !== 'string' || typeof value !== 'string') return undefined;
    return { column, operator: operator as Condition['operator'], value };
  } catch {
    return undefined;
  }
}
