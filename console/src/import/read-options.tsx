/** Options for reading the file, for cases where the guesses from its content are wrong. */
import type { FileFormat } from '../../../src/import/format.js';
import type { PlanOptions } from '../../../src/import/import-plan.js';
import type { DateOrder } from '../../../src/import/timestamps.js';
import { CheckboxField, SelectField, Field, useCommitted } from '../parts/fields.js';
import type { Draft } from './draft.js';

/** Represents undefined, which a select cannot hold. */
const GUESS = '';

export function ReadOptionsForm({ draft }: { draft: Draft }) {
  const { options } = draft;
  const { format, delimiter, quotes, skipLines, columns, encoding, decimal, thousands, dates, flatten } = options.value;
  const nulls = options.value.null;
  /** @param change undefined: guess from the file */
  const set = (change: { [Name in keyof PlanOptions]?: PlanOptions[Name] | undefined }) => {
    const all = Object.entries({ ...options.value, ...change }).filter(([, value]) => value !== undefined);
    options.value = Object.fromEntries(all) as unknown as PlanOptions;
    void draft.read();
  };
  return (
    <details class="read-options">
      <summary>How it is read</summary>
      <div class="read-options-form">
        <SelectField
          label="Format"
          value={format ?? GUESS}
          items={[
            [GUESS, 'By content and name'],
            ['csv', 'Delimited text'],
            ['ndjson', 'NDJSON'],
            ['json', 'JSON'],
            ['xlsx', 'Excel'],
            ['parquet', 'Parquet'],
          ]}
          onChange={(value) => set({ format: value === GUESS ? undefined : (value as FileFormat) })}
        />
        <SelectField
          label="Delimiter"
          value={delimiter ?? GUESS}
          items={[
            [GUESS, 'By content'],
            [',', 'Comma'],
            [';', 'Semicolon'],
            ['\t', 'Tab'],
            ['|', 'Bar'],
          ]}
          onChange={(value) => set({ delimiter: value === GUESS ? undefined : value })}
        />
        <Typed
          label="Sheet"
          hint="of a workbook; else the first"
          value={options.value.sheet ?? ''}
          onChange={(value) => set({ sheet: value.trim() === '' ? undefined : value.trim() })}
        />
        <SelectField
          label="First line"
          value={columns === undefined ? 'header' : 'record'}
          items={[
            ['header', 'The names of the fields'],
            ['record', 'A record: there are no names'],
          ]}
          onChange={(value) => void draft.setHeader(value === 'header')}
        />
        <Typed
          label="Lines to skip"
          value={String(skipLines)}
          inputMode="numeric"
          onChange={(value) => set({ skipLines: Number.parseInt(value) || 0 })}
        />
        <SelectField
          label="Encoding"
          value={encoding ?? GUESS}
          items={[
            [GUESS, 'UTF-8 or UTF-16'],
            ['windows-1252', 'windows-1252'],
            ['iso-8859-2', 'iso-8859-2'],
            ['windows-1251', 'windows-1251'],
            ['utf-16le', 'utf-16le'],
            ['shift_jis', 'shift_jis'],
            ['gb18030', 'gb18030'],
          ]}
          onChange={(value) => set({ encoding: value === GUESS ? undefined : value })}
        />
        <SelectField
          label="Decimals"
          value={decimal}
          items={[
            ['.', '1.5'],
            [',', '1,5'],
          ]}
          onChange={(value) => {
            set({ decimal: value as '.' | ',', thousands: thousands === value ? undefined : thousands });
          }}
        />
        <SelectField
          label="Thousands"
          value={thousands ?? GUESS}
          items={(
            [
              [GUESS, '1234567'],
              [',', '1,234,567'],
              ['.', '1.234.567'],
              [' ', '1 234 567'],
              ["'", "1'234'567"],
            ] as const
          ).filter(([value]) => value !== decimal)}
          onChange={(value) => set({ thousands: value === GUESS ? undefined : value })}
        />
        <SelectField
          label="Dates"
          value={dates ?? GUESS}
          items={[
            [GUESS, 'As the file shows'],
            ['dmy', 'dmy: 31/1/2026'],
            ['mdy', 'mdy: 1/31/2026'],
          ]}
          onChange={(value) => set({ dates: value === GUESS ? undefined : (value as DateOrder) })}
        />
        <Typed
          label="Also NULL"
          hint="such as NA \N"
          value={(nulls ?? []).join(' ')}
          onChange={(value) => {
            const words = value.split(/\s+/).filter((word) => word !== '');
            set({ null: words.length === 0 ? undefined : words });
          }}
        />
        <SelectField
          label="Escape in quotes"
          value={options.value.escape ?? GUESS}
          items={[
            [GUESS, 'Another quote: ""'],
            ['\\', 'Backslash: \\"'],
          ]}
          onChange={(value) => set({ escape: value === GUESS ? undefined : value })}
        />
        <CheckboxField label="Quotes are text" isChecked={!quotes} onChange={(isText) => set({ quotes: !isText })} />
        <CheckboxField
          label="Nested objects as columns"
          isChecked={flatten ?? false}
          onChange={(isFlat) => set({ flatten: isFlat ? true : undefined })}
        />
      </div>
    </details>
  );
}

interface TypedProps {
  label: string;
  hint?: string;
  value: string;
  inputMode?: 'numeric';
  onChange: (value: string) => void;
}

const Typed = ({ label, hint, value, inputMode, onChange }: TypedProps) => (
  <Field label={label}>
    <input {...useCommitted(value, onChange)} placeholder={hint} {...(inputMode === undefined ? {} : { inputMode })} />
  </Field>
);
