/** The rules for a column's values in addition to its type: NOT NULL, unique, and the default. */
import { useSignal } from '@preact/signals';
import type { Index } from '../../../src/client/index.js';
import { SelectField, Field } from '../parts/fields.js';
import type { ColumnRules } from './table-details.js';

export interface RulesChange {
  readonly not_null?: boolean;
  readonly unique?: boolean;
  readonly default?: unknown;
}

/** For example `NOT NULL, unique, default 'US'::text`. */
export function rulesText(rules: ColumnRules | undefined, isUnique: boolean): string {
  const facts = [
    rules?.notNull ? 'NOT NULL' : '',
    isUnique ? 'unique' : '',
    rules?.default === null || rules === undefined ? '' : `default ${rules.default}`,
  ];
  return facts.filter(Boolean).join(', ');
}

/** Whether an index makes the values of this column unique on its own. */
export const isUniqueBy = (indexes: readonly Index[], column: string): boolean =>
  indexes.some(
    ({ unique, partial, columns: [first, ...others] }) => unique && !partial && first === column && others.length === 0,
  );

interface RuleFieldsProps {
  readonly type: string;
  /** undefined: the token may not read them. */
  readonly rules: ColumnRules | undefined;
  readonly isUnique: boolean;
  /** @param change null if the default is not a value of the type */
  readonly onChange: (change: RulesChange | null) => void;
}

/** The change does not contain rules that stay the same. */
export function RuleFields({ type, rules, isUnique, onChange }: RuleFieldsProps) {
  const notNull = useSignal('');
  const unique = useSignal('');
  const fallback = useSignal('');
  const text = useSignal('');
  const tell = () => {
    const value = fallback.value === 'value' ? valueOf(text.value, type) : null;
    onChange(
      value === undefined
        ? null
        : {
            ...(notNull.value === '' ? {} : { not_null: notNull.value === 'true' }),
            ...(unique.value === '' ? {} : { unique: unique.value === 'true' }),
            ...(fallback.value === '' ? {} : { default: value }),
          },
    );
  };
  const pick = (label: string, signal: { value: string }, options: Readonly<Record<string, string>>) => (
    <SelectField
      label={label}
      value={signal.value}
      items={[['', 'as it is'], ...Object.entries(options)]}
      onChange={(chosen) => {
        signal.value = chosen;
        tell();
      }}
    />
  );
  const isKnown = rules !== undefined;
  return (
    <div class="rules">
      {pick('NULL', notNull, {
        ...(isKnown && rules.notNull ? {} : { true: 'rejected' }),
        ...(isKnown && !rules.notNull ? {} : { false: 'accepted' }),
      })}
      {pick('Values', unique, isUnique ? { false: 'may repeat' } : { true: 'unique' })}
      {pick('Default', fallback, {
        value: 'a value',
        ...(isKnown && rules.default === null ? {} : { none: 'none' }),
      })}
      {fallback.value === 'value' && (
        <Field label="Default value">
          <input
            class="mono"
            value={text.value}
            aria-invalid={valueOf(text.value, type) === undefined}
            placeholder={PLACEHOLDERS[type] ?? ''}
            onInput={({ currentTarget }) => {
              text.value = currentTarget.value;
              tell();
            }}
          />
        </Field>
      )}
    </div>
  );
}

const PLACEHOLDERS: Readonly<Record<string, string>> = {
  BOOLEAN: 'true or false',
  JSONB: '{"a": 1}',
  TIMESTAMP: '2026-01-31T12:00:00Z',
};

/** The value as in a record: numbers stay text, so that no digit is lost. undefined: not a value of the type. */
function valueOf(text: string, type: string): unknown {
  if (type === 'TEXT') return text;
  if (text.trim() === '') return undefined;
  if (type !== 'BOOLEAN' && type !== 'JSONB') return text.trim();
  try {
    const value = JSON.parse(text) as unknown;
    return type === 'JSONB' || typeof value === 'boolean' ? value : undefined;
  } catch {
    return undefined;
  }
}
