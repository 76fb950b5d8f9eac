/** Forms that add, change or drop a column. */
import { useSignal } from '@preact/signals';
import type { Column, ValueCount } from '../../../src/client/index.js';
import type { ColumnType } from '../../../src/contract/column-types.js';
import { CheckboxField, TextField } from '../parts/fields.js';
import { counted } from '../parts/formats.js';
import { currentSession, hasScope } from '../session.js';
import { ChangeDialog } from './change-dialog.js';
import { RuleFields, type RulesChange } from './column-rules.js';
import { CommentField, NameField, TypeSelect } from './fields.js';
import type { ColumnRules } from './table-details.js';

interface FormProps {
  readonly table: string;
  readonly onClose: () => void;
}

export function AddColumnForm({ table, onClose }: FormProps) {
  const name = useSignal('');
  const type = useSignal<ColumnType>('TEXT');
  const comment = useSignal('');
  const unique = useSignal(false);
  const body = {
    name: name.value,
    type: type.value,
    ...(comment.value === '' ? {} : { comment: comment.value }),
    ...(unique.value ? { unique: true } : {}),
  };
  return (
    <ChangeDialog
      title={`New column of ${table}`}
      action="Add column"
      request={name.value === '' ? null : { method: 'POST', path: ['table', table, 'column'], body }}
      send={(isDryRun) => currentSession().client.addColumn(table, body, isDryRun ? { dryRun: true } : {})}
      onClose={onClose}
    >
      <NameField text={name} />
      <CommentField text={comment} />
      <div class="field">
        <span class="field-label">Type</span>
        <TypeSelect label="Type" value={type.value} onChange={(chosen) => (type.value = chosen)} />
      </div>
      <CheckboxField
        label="Unique: no two rows have the same value"
        isChecked={unique.value}
        onChange={(isUnique) => (unique.value = isUnique)}
      />
    </ChangeDialog>
  );
}

interface AlterColumnProps extends FormProps {
  readonly column: Column;
  /** undefined: the token may not read them. */
  readonly rules: ColumnRules | undefined;
  readonly isUnique: boolean;
}

export function AlterColumnForm({ table, column, rules, isUnique, onClose }: AlterColumnProps) {
  // Of `id`, only the comment can change.
  const isId = column.name === 'id';
  const name = useSignal(column.name);
  const type = useSignal<string>(column.type);
  const comment = useSignal(column.comment ?? '');
  const inTheWay = useSignal<readonly ValueCount[]>([]);
  const replaced = useSignal<Readonly<Record<string, string>>>({});
  const newRules = useSignal<RulesChange | null>({});
  const isNewType = type.value !== column.type;
  const hasMap = isNewType && Object.keys(replaced.value).length > 0;
  const body = {
    ...(name.value === column.name ? {} : { new_name: name.value }),
    ...(isNewType ? { new_type: type.value as ColumnType } : {}),
    ...(hasMap ? { map: replaced.value } : {}),
    ...(comment.value === (column.comment ?? '') ? {} : { comment: comment.value }),
    ...newRules.value,
  };
  const isWhole = name.value !== '' && newRules.value !== null && Object.keys(body).length > 0;
  // Listing values means reading them, which requires another scope.
  const wantsValues = isNewType && hasScope('sql:write');
  const request = {
    method: 'PUT',
    path: ['table', table, 'column', column.name],
    body,
    ...(wantsValues ? { query: 'return=values' } : {}),
  } as const;
  return (
    <ChangeDialog
      title={`Column ${column.name} of ${table}`}
      action="Change column"
      request={isWhole ? request : null}
      send={(isDryRun) =>
        currentSession().client.alterColumn(table, column.name, body, {
          ...(wantsValues ? { return: 'values' } : {}),
          ...(isDryRun ? { dryRun: true } : {}),
        })
      }
      onValues={(values) => (inTheWay.value = values)}
      onClose={onClose}
    >
      {!isId && <NameField text={name} />}
      <CommentField text={comment} />
      {!isId && (
        <>
          <div class="field">
            <span class="field-label">Type</span>
            <TypeSelect
              label="Type"
              value={type.value}
              onChange={(chosen) => {
                type.value = chosen;
                newRules.value = {};
              }}
            />
            {isNewType && (
              <p class="quiet">
                Every value is kept, or nothing is changed. Try it first to see which values do not fit.
              </p>
            )}
          </div>
          <RuleFields
            key={type.value}
            type={type.value}
            rules={rules}
            isUnique={isUnique}
            onChange={(change) => (newRules.value = change)}
          />
        </>
      )}
      {isNewType && inTheWay.value.length > 0 && (
        <fieldset class="columns-form">
          <legend class="field-label">Values that do not fit, and their replacements</legend>
          {inTheWay.value.map(({ value, rows }) => (
            <label class="map-row" key={value}>
              <code>{value === '' ? 'empty text' : value}</code>
              <span class="quiet">{counted(rows, 'row')}</span>
              <input
                class="mono"
                placeholder="not replaced"
                value={replaced.value[value] ?? ''}
                onInput={(event) => {
                  const { [value]: _, ...others } = replaced.value;
                  const text = event.currentTarget.value;
                  replaced.value = text === '' ? others : { ...others, [value]: text };
                }}
              />
            </label>
          ))}
        </fieldset>
      )}
    </ChangeDialog>
  );
}

/** @param props.column undefined to drop the whole table */
export function DropForm({ table, column, onClose, onDone }: FormProps & { column?: string; onDone?: () => void }) {
  const typed = useSignal('');
  const name = column ?? table;
  const { client } = currentSession();
  return (
    <ChangeDialog
      title={column === undefined ? `Drop the table ${table}` : `Drop the column ${column} of ${table}`}
      action={column === undefined ? 'Drop table' : 'Drop column'}
      isDangerous
      request={
        typed.value === name
          ? { method: 'DELETE', path: column === undefined ? ['table', table] : ['table', table, 'column', column] }
          : null
      }
      send={(isDryRun) => {
        const options = isDryRun ? ({ dryRun: true } as const) : {};
        return column === undefined ? client.dropTable(table, options) : client.dropColumn(table, column, options);
      }}
      {...(onDone === undefined ? {} : { onDone })}
      onClose={onClose}
    >
      <TextField
        label={
          <>
            All of its values are lost. To continue, type <code>{name}</code>.
          </>
        }
        text={typed}
      />
    </ChangeDialog>
  );
}

export function AlterTableForm({
  table,
  comment: old,
  onClose,
  onDone,
}: FormProps & { comment: string; onDone: (name: string) => void }) {
  const name = useSignal(table);
  const comment = useSignal(old);
  const body = {
    ...(name.value === table ? {} : { new_name: name.value }),
    ...(comment.value === old ? {} : { comment: comment.value }),
  };
  return (
    <ChangeDialog
      title={`Table ${table}`}
      action="Change table"
      request={
        Object.keys(body).length === 0 || name.value === '' ? null : { method: 'PUT', path: ['table', table], body }
      }
      send={(isDryRun) => currentSession().client.alterTable(table, body, isDryRun ? { dryRun: true } : {})}
      onDone={() => onDone(name.value)}
      onClose={onClose}
    >
      <NameField text={name} />
      <CommentField text={comment} />
    </ChangeDialog>
  );
}
