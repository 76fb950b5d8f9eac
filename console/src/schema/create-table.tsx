/** A form for a new table. Each column is a row of the form. */
import { useSignal } from '@preact/signals';
import type { ColumnType } from '../../../src/contract/column-types.js';
import { Icon, IconButton } from '../parts/icon.js';
import { goTo } from '../route.js';
import { currentSession } from '../session.js';
import { ChangeDialog } from './change-dialog.js';
import { API_NAME, CommentField, NameField, TypeSelect } from './fields.js';

interface Draft {
  readonly name: string;
  readonly type: ColumnType;
  readonly unique?: true;
}

export function CreateTableForm({ onClose }: { onClose: () => void }) {
  const name = useSignal('');
  const comment = useSignal('');
  const columns = useSignal<readonly Draft[]>([{ name: '', type: 'TEXT' }]);
  const change = (at: number, with_: Partial<Draft>) =>
    (columns.value = columns.value.map((column, i) => (i === at ? { ...column, ...with_ } : column)));

  const named = columns.value.filter((column) => column.name !== '');
  const body = {
    table_name: name.value,
    columns: named.map((column) => ({ ...column })),
    ...(comment.value === '' ? {} : { comment: comment.value }),
  };
  const isWhole = name.value !== '' && named.length > 0;
  return (
    <ChangeDialog
      title="New table"
      action="Create table"
      request={isWhole ? { method: 'POST', path: ['table'], body } : null}
      send={(isDryRun) => currentSession().client.createTable(body, isDryRun ? { dryRun: true } : {})}
      onDone={() => goTo('tables', name.value, 'columns')}
      onClose={onClose}
    >
      <NameField text={name} />
      <fieldset class="columns-form">
        <legend class="field-label">Columns</legend>
        {columns.value.map((column, i) => (
          <div class="columns-row" key={i}>
            <input
              class="mono"
              value={column.name}
              aria-label={`Name of column ${i + 1}`}
              placeholder="name"
              {...API_NAME}
              autocomplete="off"
              spellcheck={false}
              onInput={(event) => change(i, { name: event.currentTarget.value })}
            />
            <TypeSelect
              label={`Type of column ${i + 1}`}
              value={column.type}
              onChange={(type) => change(i, { type })}
            />
            <label class="check">
              <input
                type="checkbox"
                aria-label={`Column ${i + 1} is unique`}
                checked={column.unique === true}
                onChange={({ currentTarget: { checked } }) => {
                  const { unique: _, ...others } = column;
                  columns.value = columns.value.with(i, checked ? { ...others, unique: true } : others);
                }}
              />
              unique
            </label>
            <IconButton
              icon="close"
              label={`Remove column ${i + 1}`}
              disabled={columns.value.length === 1}
              onClick={() => (columns.value = columns.value.filter((_, other) => other !== i))}
            />
          </div>
        ))}
        <button
          type="button"
          class="button"
          onClick={() => (columns.value = [...columns.value, { name: '', type: 'TEXT' }])}
        >
          <Icon name="plus" />
          Another column
        </button>
        <p class="quiet">
          Every table also gets an <code>id</code>, made by the service.
        </p>
      </fieldset>
      <CommentField text={comment} />
    </ChangeDialog>
  );
}
