/** Fields of the forms that change tables. */
import { COLUMN_TYPES, type ColumnType } from '../../../src/contract/column-types.js';
import { NAME_PATTERN } from '../../../src/contract/names.js';
import { TextField } from '../parts/fields.js';

/** Properties with which a field checks a name. */
export const API_NAME = {
  pattern: NAME_PATTERN.slice(1, -1),
  title: 'Letters, digits and underscores; not a digit first',
} as const;

interface TextProps {
  /** A signal. */
  readonly text: { value: string };
}

export const NameField = ({ text }: TextProps) => <TextField label="Name" text={text} required {...API_NAME} />;

export const CommentField = ({ text }: TextProps) => (
  <TextField label="Comment" class="" spellcheck text={text} maxLength={2_000} />
);

interface TypeSelectProps {
  readonly value: string;
  readonly label: string;
  readonly onChange: (type: ColumnType) => void;
}

export const TypeSelect = ({ value, label, onChange }: TypeSelectProps) => (
  <select aria-label={label} value={value} onChange={(event) => onChange(event.currentTarget.value as ColumnType)}>
    {!COLUMN_TYPES.some((type) => type === value) && <option value={value}>{value}</option>}
    {COLUMN_TYPES.map((type) => (
      <option key={type} value={type}>
        {type}
      </option>
    ))}
  </select>
);
