/** The indexes of a table, and the forms that create and drop them. */
import { useSignal } from '@preact/signals';
import type { Column, Index } from '../../../src/client/index.js';
import { NAME_PATTERN } from '../../../src/contract/names.js';
import { useDialog } from '../parts/dialog.js';
import { CheckboxField, TextField } from '../parts/fields.js';
import { Icon, IconButton } from '../parts/icon.js';
import { type Column as TableColumn, Table } from '../parts/table.js';
import { currentSession } from '../session.js';
import { ChangeDialog } from './change-dialog.js';
import { API_NAME } from './fields.js';

interface IndexesProps {
  readonly table: string;
  readonly columns: readonly Column[];
  readonly indexes: readonly Index[];
  readonly canChange: boolean;
}

const IS_API_NAME = new RegExp(NAME_PATTERN);

export function Indexes({ table, columns, indexes, canChange }: IndexesProps) {
  const { dialog, open } = useDialog();
  const create = () => open((close) => <CreateIndex table={table} columns={columns} onClose={close} />);
  const drop = (index: Index) => open((close) => <DropIndex table={table} index={index} onClose={close} />);
  return (
    <section class="indexes" aria-labelledby="indexes-title">
      <div class="table-head">
        <h2 id="indexes-title">Indexes</h2>
        {canChange && (
          <button type="button" class="button" onClick={create}>
            <Icon name="plus" />
            New index
          </button>
        )}
      </div>
      {indexes.length > 0 && (
        <Table
          label="List of indexes"
          class=""
          frame="table-columns"
          rows={indexes}
          keyOf={({ name }) => name}
          columns={[
            { title: 'Index', cells: 'mono', cell: ({ name }) => name },
            {
              title: 'Columns',
              cells: 'mono',
              cell: (index) => index.columns.map((column) => column ?? '(expression)').join(', '),
            },
            { title: 'What', cells: ({ valid }) => (valid ? 'quiet' : 'bad'), cell: kindOf },
            ...(canChange ? [dropColumn(drop)] : []),
          ]}
        />
      )}
      {dialog}
    </section>
  );
}

const dropColumn = (drop: (index: Index) => void): TableColumn<Index> => ({
  title: 'Drop',
  isTitleHidden: true,
  cells: 'table-change',
  cell: (index) =>
    !index.primary &&
    IS_API_NAME.test(index.name) && (
      <IconButton icon="trash" label={`Drop the index ${index.name}`} title="Drop" onClick={() => drop(index)} />
    ),
});

function kindOf({ primary, unique, partial, valid }: Index): string {
  const kinds = [
    primary ? 'primary key' : unique ? 'unique' : '',
    partial ? 'of some rows' : '',
    valid ? '' : 'not valid: its creation failed, or still runs',
  ];
  return kinds.filter(Boolean).join(', ');
}

interface CreateIndexProps {
  readonly table: string;
  readonly columns: readonly Column[];
  readonly onClose: () => void;
}

function CreateIndex({ table, columns, onClose }: CreateIndexProps) {
  const chosen = useSignal<readonly string[]>([]);
  const unique = useSignal(false);
  const name = useSignal('');
  const body = {
    columns: [...chosen.value],
    ...(unique.value ? { unique: true } : {}),
    ...(name.value === '' ? {} : { name: name.value }),
  };
  const free = columns.filter((column) => !chosen.value.includes(column.name)).map((column) => column.name);
  return (
    <ChangeDialog
      title={`New index of ${table}`}
      action="Create index"
      request={chosen.value.length === 0 ? null : { method: 'POST', path: ['table', table, 'index'], body }}
      send={(isDryRun) => currentSession().client.createIndex(table, body, isDryRun ? { dryRun: true } : {})}
      onClose={onClose}
    >
      <fieldset class="columns-form">
        <legend class="field-label">Columns, most searched first</legend>
        {[...chosen.value, ''].map((column, i) => (
          <select
            key={column}
            class="mono"
            aria-label={`Column ${i + 1}`}
            value={column}
            onChange={({ currentTarget: { value } }) => {
              const next = column === '' ? [...chosen.value, value] : chosen.value.with(i, value);
              chosen.value = next.filter(Boolean);
            }}
          >
            <option value="">{column === '' ? 'Add a column …' : 'Remove'}</option>
            {columns
              .filter((other) => other.name === column || free.includes(other.name))
              .map((other) => (
                <option key={other.name} value={other.name}>
                  {other.name}
                </option>
              ))}
          </select>
        ))}
      </fieldset>
      <CheckboxField
        label="Unique: no two rows have the same values"
        isChecked={unique.value}
        onChange={(isUnique) => (unique.value = isUnique)}
      />
      <TextField label="Name" text={name} placeholder="chosen by Postgres" {...API_NAME} />
    </ChangeDialog>
  );
}

const DropIndex = ({ table, index, onClose }: { table: string; index: Index; onClose: () => void }) => (
  <ChangeDialog
    title={`Drop the index ${index.name}`}
    action="Drop index"
    isDangerous
    request={{ method: 'DELETE', path: ['table', table, 'index', index.name] }}
    send={(isDryRun) => currentSession().client.dropIndex(table, index.name, isDryRun ? { dryRun: true } : {})}
    onClose={onClose}
  >
    <p>
      No row is lost. Searches by its columns become slower
      {index.unique && ', and rows with the same values are no longer rejected'}.
    </p>
  </ChangeDialog>
);
