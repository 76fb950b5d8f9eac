/** One table: its properties, its rows, its columns, and actions. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { Column, Table } from '../../../src/client/index.js';
import { NAME_PATTERN } from '../../../src/contract/names.js';
import { useDialog } from '../parts/dialog.js';
import { Icon, IconButton } from '../parts/icon.js';
import { counted, size } from '../parts/formats.js';
import { type Column as TableColumn, Table as DataTable } from '../parts/table.js';
import { goTo, linkTo, linkToQuery } from '../route.js';
import { RowsView } from '../rows/rows-view.js';
import { hasScope } from '../session.js';
import { quoted } from '../sql/sql-names.js';
import { readColumns } from './catalog.js';
import { AddColumnForm, AlterColumnForm, AlterTableForm, DropForm } from './column-forms.js';
import { isUniqueBy, rulesText } from './column-rules.js';
import { Indexes } from './indexes.js';
import { readDetails, type TableDetails } from './table-details.js';

const API_NAME = new RegExp(NAME_PATTERN);
const KINDS = { table: 'Table', view: 'View', materialized_view: 'Materialized view', foreign_table: 'Foreign table' };

/** @param props.part of the address: `columns`, or the rows */
export function TableView({ table, part }: { table: Table; part: string | undefined }) {
  const { name, kind, comment, columns } = table;
  const { dialog, open } = useDialog();
  const details = useSignal<TableDetails>({ bytes: undefined, rules: new Map(), indexes: [] });
  // Repeated after every change, which reads the catalog again.
  useEffect(() => {
    void readColumns(name);
    void readDetails(name, kind === 'table' && API_NAME.test(name)).then((read) => (details.value = read));
  }, [table]);
  const { bytes, rules, indexes } = details.value;
  // Only SQL can change views, and names that only SQL can create.
  const canChange = hasScope('schema:write') && kind === 'table' && API_NAME.test(name);
  const canSeeRows = hasScope('sql:read');
  const isRows = canSeeRows && part !== 'columns';
  const canQuery = hasScope('sql:read') || hasScope('sql:write');
  const ask = () => {
    location.hash = linkToQuery(`SELECT * FROM ${quoted(name)} LIMIT 100;`, name);
  };
  const addColumn = () => open((close) => <AddColumnForm table={name} onClose={close} />);
  const alterColumn = (column: Column) =>
    open((close) => (
      <AlterColumnForm
        table={name}
        column={column}
        rules={details.value.rules.get(column.name)}
        isUnique={isUniqueBy(details.value.indexes, column.name)}
        onClose={close}
      />
    ));
  const dropColumn = ({ name: column }: Column) =>
    open((close) => <DropForm table={name} column={column} onClose={close} />);
  const alterTable = () =>
    open((close) => (
      <AlterTableForm
        table={name}
        comment={comment ?? ''}
        onDone={(now) => goTo('tables', now, ...(isRows ? [] : ['columns']))}
        onClose={close}
      />
    ));
  const dropTable = () => open((close) => <DropForm table={name} onDone={() => goTo('tables')} onClose={close} />);
  return (
    <div class={isRows ? 'table-view is-rows' : 'table-view'}>
      <header class="table-head">
        <div class="table-title">
          <h1 class="mono">{name}</h1>
          <p class="quiet">{factsOf(table, bytes)}</p>
          {comment !== null && <p>{comment}</p>}
          {canSeeRows && (
            <nav class="segments" aria-label="Parts of the table">
              <a href={linkTo('tables', name)} aria-current={isRows ? 'page' : undefined}>
                Rows
              </a>
              <a href={linkTo('tables', name, 'columns')} aria-current={isRows ? undefined : 'page'}>
                Columns
              </a>
            </nav>
          )}
        </div>
        <div class="table-actions">
          {canQuery && !isRows && (
            <button type="button" class="button" onClick={ask}>
              Query
            </button>
          )}
          {hasScope('data:write') && kind === 'table' && API_NAME.test(name) && (
            <a class="button" href={linkTo('import', name)}>
              Import
            </a>
          )}
          {canChange && (
            <>
              <button type="button" class="button" onClick={addColumn}>
                <Icon name="plus" />
                Add column
              </button>
              <button type="button" class="button" onClick={alterTable}>
                <Icon name="edit" />
                Rename or comment
              </button>
              <button type="button" class="button is-danger" onClick={dropTable}>
                Drop
              </button>
            </>
          )}
        </div>
      </header>
      {isRows ? (
        <RowsView table={table} />
      ) : (
        <>
          <DataTable
            label="Columns"
            class=""
            frame="table-columns"
            rows={columns}
            keyOf={(column) => column.name}
            columns={[
              {
                title: 'Column',
                cells: 'mono',
                cell: (column) => (
                  <>
                    {column.name}
                    {column.comment !== null && <p class="table-comment narrow-only quiet">{column.comment}</p>}
                  </>
                ),
              },
              {
                title: 'Type',
                cell: (column) => (
                  <>
                    <span class="mono quiet">{column.type}</span>
                    <p class="table-comment">{rulesText(rules.get(column.name), isUniqueBy(indexes, column.name))}</p>
                  </>
                ),
              },
              { title: 'Comment', class: 'wide-only', cell: (column) => column.comment },
              ...(canChange ? [changeColumn(alterColumn, dropColumn)] : []),
            ]}
          />
          {kind === 'table' && API_NAME.test(name) && hasScope('schema:read') && (
            <Indexes table={name} columns={columns} indexes={indexes} canChange={canChange} />
          )}
        </>
      )}
      {dialog}
    </div>
  );
}

/** The buttons next to a column. */
const changeColumn = (alter: (column: Column) => void, drop: (column: Column) => void): TableColumn<Column> => ({
  title: 'Change',
  isTitleHidden: true,
  cells: 'table-change',
  cell: (column) => (
    <>
      <IconButton label={`Change ${column.name}`} title="Change" icon="edit" onClick={() => alter(column)} />
      {column.name !== 'id' && (
        <IconButton label={`Drop ${column.name}`} title="Drop" icon="trash" onClick={() => drop(column)} />
      )}
    </>
  ),
});

function factsOf({ kind, approximate_rows: rows, columns }: Table, bytes: number | undefined): string {
  const facts = [
    KINDS[kind],
    counted(columns.length, 'column'),
    rows === null ? '' : `about ${counted(rows, 'row')}`,
    bytes === undefined ? '' : `${size(bytes)} with indexes`,
  ];
  return facts.filter(Boolean).join(' · ');
}
