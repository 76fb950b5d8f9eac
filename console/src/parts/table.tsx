/** A list as a table, which scrolls if it is too wide. */
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';

export interface Column<Row> {
  readonly title: string;
  /** For columns of buttons: the title is only for screen readers. */
  readonly isTitleHidden?: true;
  /** Whether the cells of this column are the headers of their rows. Default: the cells of the first column are. */
  readonly isHeader?: true;
  /** `class` applies to the title and the cells, `cells` only to the cells. */
  readonly class?: string;
  readonly cells?: string | ((row: Row) => string);
  readonly hint?: (row: Row) => string;
  readonly cell: (row: Row) => ComponentChildren;
  /** The list can be sorted by this. */
  readonly order?: (row: Row) => number | string;
}

interface Action<Row> {
  /** The text of the button, and its label, which names the row. */
  readonly text: string;
  readonly label: (row: Row) => string;
  readonly run: (row: Row) => void;
  readonly isShown?: (row: Row) => boolean;
}

/** A column with a button in each row. */
export const actionColumn = <Row,>({ text, label, run, isShown = () => true }: Action<Row>): Column<Row> => ({
  title: 'Actions',
  isTitleHidden: true,
  cells: 'is-end',
  cell: (row) =>
    isShown(row) && (
      <button type="button" class="button is-quiet" aria-label={label(row)} onClick={() => run(row)}>
        {text}
      </button>
    ),
});

interface TableProps<Row> {
  readonly label: string;
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  readonly columns: readonly Column<Row>[];
  readonly classOf?: (row: Row) => string;
  /** Classes of the table and of its scroll container. */
  readonly class?: string;
  readonly frame?: string;
}

export function Table<Row>(props: TableProps<Row>) {
  const { label, rows, keyOf, columns, classOf, class: look = 'list', frame = 'scroll' } = props;
  const header = columns.find(({ isHeader }) => isHeader) ?? columns[0];
  const sorting = useSignal<Sorting | null>(null);
  return (
    <div class={frame} tabIndex={0} role="region" aria-label={label}>
      <table class={look}>
        <thead>
          <tr>
            {columns.map(({ title, isTitleHidden, class: name, order }) => (
              <th
                key={title}
                scope="col"
                class={name}
                aria-sort={sorting.value?.title === title ? sorting.value.direction : undefined}
              >
                {isTitleHidden ? (
                  <span class="sr-only">{title}</span>
                ) : order === undefined ? (
                  title
                ) : (
                  <button type="button" class="link" onClick={() => (sorting.value = next(sorting.value, title))}>
                    {title}
                    {sorting.value?.title === title && ARROWS[sorting.value.direction]}
                  </button>
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sorted(rows, columns, sorting.value).map((row) => (
            <tr key={keyOf(row)} class={classOf?.(row)}>
              {columns.map((column) => {
                const { title, class: name = '', cells = '', hint } = column;
                const looks = `${name} ${typeof cells === 'string' ? cells : cells(row)}`;
                const Cell = column === header ? 'th' : 'td';
                return (
                  <Cell key={title} class={looks} title={hint?.(row)} {...(Cell === 'th' ? { scope: 'row' } : {})}>
                    {column.cell(row)}
                  </Cell>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface Sorting {
  readonly title: string;
  readonly direction: 'ascending' | 'descending';
}

const ARROWS = { ascending: ' \u2191', descending: ' \u2193' } as const;

/** The largest first; then the smallest. */
const next = (now: Sorting | null, title: string): Sorting => ({
  title,
  direction: now?.title === title && now.direction === 'descending' ? 'ascending' : 'descending',
});

function sorted<Row>(rows: readonly Row[], columns: readonly Column<Row>[], by: Sorting | null): readonly Row[] {
  const order = columns.find(({ title }) => title === by?.title)?.order;
  if (by === null || order === undefined) return rows;
  const sign = by.direction === 'ascending' ? 1 : -1;
  return rows.toSorted((a, b) => sign * (order(a) < order(b) ? -1 : order(a) > order(b) ? 1 : 0));
}
