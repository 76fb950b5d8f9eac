/** A form for a new table: its columns are rows of the form. */
import { useSignal } from '@preact/signals';
import { COLUMN_TYPES, type ColumnType } from '../../../src/contract/column-types.js';
import { NAME_PATTERN } from '../../../src/contract/names.js';
import { Icon } from '../parts/icon.js';
import { goTo } from '../route.js';
import { entered } from '../session.js';
import { ChangeDialog } from './change-dialog.js';

interface Draft {
  readonly name: string;
  readonly type: ColumnType;
  readonly unique?: true;
}

/** What an API name looks like, for a field's own check. */
export const NAME = NAME_PATTERN.slice(1, -1);

export const TypeSelect = ({
  value,
  label,
  onChange,
}: {
  value: string;
  label: string;
  onChange: (type: ColumnType) => void;
}) => (
  <select aria-label={label} value={value} onChange={(event) => onChange(event.currentTarget.value as ColumnType)}>
    {!COLUMN_TYPES.some((type) => type === value) && <option value={value}>{value}</option>}
    {COLUMN_TYPES.map((type) => (
      <option key={type} value={type}>
        {type}
      </option>
    ))}
  </select>
);

export function CreateTable({ onClose }: { onClose: () => void }) {
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
      send={(isRehearsal) => entered().client.createTable(body, isRehearsal ? { dryRun: true } : {})}
      onDone={() => {
        onClose();
        goTo('tables', name.value);
      }}
      onClose={onClose}
    >
      <label class="field">
        <span class="field-label">Name</span>
        <input
          class="mono"
          value={name.value}
          required
          pattern={NAME}
          title="Letters, digits and underscores; not a digit first"
          autocomplete="off"
          spellcheck={false}
          onInput={(event) => (name.value = event.currentTarget.value)}
        />
      </label>
      <fieldset class="columns-form">
        <legend class="field-label">Columns</legend>
        {columns.value.map((column, i) => (
          <div class="columns-row" key={i}>
            <input
              class="mono"
              value={column.name}
              aria-label={`Name of column ${i + 1}`}
              placeholder="name"
              pattern={NAME}
              title="Letters, digits and underscores; not a digit first"
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
            <button
              type="button"
              class="button is-icon"
              aria-label={`Remove column ${i + 1}`}
              disabled={columns.value.length === 1}
              onClick={() => (columns.value = columns.value.filter((_, other) => other !== i))}
            >
              <Icon name="close" />
            </button>
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
      <label class="field">
        <span class="field-label">Comment</span>
        <input
          value={comment.value}
          maxLength={2_000}
          onInput={(event) => (comment.value = event.currentTarget.value)}
        />
      </label>
    </ChangeDialog>
  );
}
