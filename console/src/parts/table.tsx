/** A list as a table, which scrolls if it is too wide. */
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
  return (
    <div class={frame} tabIndex={0} role="region" aria-label={label}>
      <table class={look}>
        <thead>
          <tr>
            {columns.map(({ title, isTitleHidden, class: name }) => (
              <th key={title} scope="col" class={name}>
                {isTitleHidden ? <span class="sr-only">{title}</span> : title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
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
