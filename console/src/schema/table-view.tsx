/** One table: what it is, its columns, and what can be done with it. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { Column, Table } from '../../../src/client/index.js';
import { NAME_PATTERN } from '../../../src/contract/names.js';
import { Icon } from '../parts/icon.js';
import { counted, size } from '../parts/numbers.js';
import { goTo, linkTo } from '../route.js';
import { may } from '../session.js';
import { quoted } from '../sql/sql-names.js';
import { readColumns } from './catalog.js';
import { AddColumn, AlterColumn, AlterTable, Drop } from './column-forms.js';
import { isUniqueBy, rulesText } from './column-rules.js';
import { Indexes } from './indexes.js';
import { readDetails, type TableDetails } from './table-details.js';

type Open = { form: 'add' | 'alter-table' | 'drop-table' } | { form: 'alter' | 'drop'; column: Column };

const API_NAME = new RegExp(NAME_PATTERN);
const KINDS = { table: 'Table', view: 'View', materialized_view: 'Materialized view', foreign_table: 'Foreign table' };

export function TableView({ table }: { table: Table }) {
  const { name, kind, comment, columns } = table;
  const open = useSignal<Open | null>(null);
  const details = useSignal<TableDetails>({ bytes: undefined, rules: new Map(), indexes: [] });
  // Again after every change, which reads the catalog anew.
  useEffect(() => {
    void readColumns(name);
    void readDetails(name, kind === 'table' && API_NAME.test(name)).then((read) => (details.value = read));
  }, [table]);
  const { bytes, rules, indexes } = details.value;
  const close = () => (open.value = null);
  // Names that SQL alone can make, and views, are for SQL alone to change.
  const canChange = may('schema:write') && kind === 'table' && API_NAME.test(name);
  const canQuery = may('sql:read') || may('sql:write');
  const ask = () => {
    location.hash = `#/sql?sql=${encodeURIComponent(`SELECT * FROM ${quoted(name)} LIMIT 100;`)}`;
  };
  return (
    <div class="table-view">
      <header class="table-head">
        <div class="table-title">
          <h1 class="mono">{name}</h1>
          <p class="quiet">{factsOf(table, bytes)}</p>
          {comment !== null && <p>{comment}</p>}
        </div>
        <div class="table-actions">
          {canQuery && (
            <button type="button" class="button" onClick={ask}>
              Query
            </button>
          )}
          {may('data:write') && kind === 'table' && API_NAME.test(name) && (
            <a class="button" href={linkTo('import', name)}>
              Import
            </a>
          )}
          {canChange && (
            <>
              <button type="button" class="button" onClick={() => (open.value = { form: 'add' })}>
                <Icon name="plus" />
                Add column
              </button>
              <button type="button" class="button" onClick={() => (open.value = { form: 'alter-table' })}>
                <Icon name="edit" />
                Rename or comment
              </button>
              <button type="button" class="button is-danger" onClick={() => (open.value = { form: 'drop-table' })}>
                Drop
              </button>
            </>
          )}
        </div>
      </header>
      <div class="table-columns" tabIndex={0} role="region" aria-label="Columns">
        <table>
          <thead>
            <tr>
              <th scope="col">Column</th>
              <th scope="col">Type</th>
              <th scope="col" class="wide-only">
                Comment
              </th>
              {canChange && (
                <th scope="col">
                  <span class="sr-only">Change</span>
                </th>
              )}
            </tr>
          </thead>
          <tbody>
            {columns.map((column) => (
              <tr key={column.name}>
                <th scope="row" class="mono">
                  {column.name}
                  {column.comment !== null && <p class="table-comment narrow-only quiet">{column.comment}</p>}
                </th>
                <td>
                  <span class="mono quiet">{column.type}</span>
                  <p class="table-comment">{rulesText(rules.get(column.name), isUniqueBy(indexes, column.name))}</p>
                </td>
                <td class="wide-only">{column.comment}</td>
                {canChange && (
                  <td class="table-change">
                    <button
                      type="button"
                      class="button is-icon"
                      aria-label={`Change ${column.name}`}
                      title="Change"
                      onClick={() => (open.value = { form: 'alter', column })}
                    >
                      <Icon name="edit" />
                    </button>
                    {column.name !== 'id' && (
                      <button
                        type="button"
                        class="button is-icon"
                        aria-label={`Drop ${column.name}`}
                        title="Drop"
                        onClick={() => (open.value = { form: 'drop', column })}
                      >
                        <Icon name="trash" />
                      </button>
                    )}
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {kind === 'table' && API_NAME.test(name) && may('schema:read') && (
        <Indexes table={name} columns={columns} indexes={indexes} canChange={canChange} />
      )}
      {open.value?.form === 'add' && <AddColumn table={name} onClose={close} />}
      {open.value?.form === 'alter' && (
        <AlterColumn
          table={name}
          column={open.value.column}
          rules={rules.get(open.value.column.name)}
          isUnique={isUniqueBy(indexes, open.value.column.name)}
          onClose={close}
        />
      )}
      {open.value?.form === 'drop' && (
        <Drop table={name} column={open.value.column.name} onDone={close} onClose={close} />
      )}
      {open.value?.form === 'alter-table' && (
        <AlterTable
          table={name}
          comment={comment ?? ''}
          onDone={(now) => {
            close();
            goTo('tables', now);
          }}
          onClose={close}
        />
      )}
      {open.value?.form === 'drop-table' && (
        <Drop
          table={name}
          onDone={() => {
            close();
            goTo('tables');
          }}
          onClose={close}
        />
      )}
    </div>
  );
}

function factsOf({ kind, approximate_rows: rows, columns }: Table, bytes: number | undefined): string {
  const facts = [
    KINDS[kind],
    counted(columns.length, 'column'),
    rows === null ? '' : `about ${counted(rows, 'row')}`,
    bytes === undefined ? '' : `${size(bytes)} with indexes`,
  ];
  return facts.filter(Boolean).join(' · ');
}
