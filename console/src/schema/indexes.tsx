/** The indexes of a table, and the forms that make and drop one. */
import { useSignal } from '@preact/signals';
import type { Column, Index } from '../../../src/client/index.js';
import { NAME_PATTERN } from '../../../src/contract/names.js';
import { Icon } from '../parts/icon.js';
import { entered } from '../session.js';
import { ChangeDialog } from './change-dialog.js';
import { NAME } from './create-table.js';

interface IndexesProps {
  readonly table: string;
  readonly columns: readonly Column[];
  readonly indexes: readonly Index[];
  readonly canChange: boolean;
}

const API_NAME = new RegExp(NAME_PATTERN);

export function Indexes({ table, columns, indexes, canChange }: IndexesProps) {
  const open = useSignal<'new' | Index | null>(null);
  const close = () => (open.value = null);
  return (
    <section class="indexes" aria-labelledby="indexes-title">
      <div class="table-head">
        <h2 id="indexes-title">Indexes</h2>
        {canChange && (
          <button type="button" class="button" onClick={() => (open.value = 'new')}>
            <Icon name="plus" />
            New index
          </button>
        )}
      </div>
      {indexes.length > 0 && (
        <div class="table-columns" tabIndex={0} role="region" aria-label="List of indexes">
          <table>
            <thead>
              <tr>
                <th scope="col">Index</th>
                <th scope="col">Columns</th>
                <th scope="col">What</th>
                {canChange && (
                  <th scope="col">
                    <span class="sr-only">Drop</span>
                  </th>
                )}
              </tr>
            </thead>
            <tbody>
              {indexes.map((index) => (
                <tr key={index.name}>
                  <th scope="row" class="mono">
                    {index.name}
                  </th>
                  <td class="mono">{index.columns.map((column) => column ?? '(expression)').join(', ')}</td>
                  <td class={index.valid ? 'quiet' : 'bad'}>{kindOf(index)}</td>
                  {canChange && (
                    <td class="table-change">
                      {!index.primary && API_NAME.test(index.name) && (
                        <button
                          type="button"
                          class="button is-icon"
                          aria-label={`Drop the index ${index.name}`}
                          title="Drop"
                          onClick={() => (open.value = index)}
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
      )}
      {open.value === 'new' && <CreateIndex table={table} columns={columns} onClose={close} />}
      {open.value !== null && open.value !== 'new' && <DropIndex table={table} index={open.value} onClose={close} />}
    </section>
  );
}

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
      send={(isRehearsal) => entered().client.createIndex(table, body, isRehearsal ? { dryRun: true } : {})}
      onDone={onClose}
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
      <label class="check">
        <input type="checkbox" checked={unique.value} onChange={() => (unique.value = !unique.value)} />
        Unique: no two rows have the same values
      </label>
      <label class="field">
        <span class="field-label">Name</span>
        <input
          class="mono"
          value={name.value}
          placeholder="chosen by Postgres"
          pattern={NAME}
          title="Letters, digits and underscores; not a digit first"
          autocomplete="off"
          spellcheck={false}
          onInput={(event) => (name.value = event.currentTarget.value)}
        />
      </label>
    </ChangeDialog>
  );
}

const DropIndex = ({ table, index, onClose }: { table: string; index: Index; onClose: () => void }) => (
  <ChangeDialog
    title={`Drop the index ${index.name}`}
    action="Drop index"
    isDangerous
    request={{ method: 'DELETE', path: ['table', table, 'index', index.name] }}
    send={(isRehearsal) => entered().client.dropIndex(table, index.name, isRehearsal ? { dryRun: true } : {})}
    onDone={onClose}
    onClose={onClose}
  >
    <p>
      No row is lost. Searches by its columns become slower
      {index.unique && ', and rows with the same values are no longer rejected'}.
    </p>
  </ChangeDialog>
);
