/** The fields of the file: their first values, and the column and type of each. */
import { REQUESTED_TYPES } from '../../../src/import/field-mapping.js';
import { oneLine } from '../results/cells.js';
import type { Draft } from './draft.js';
import { inConsole } from './words.js';

const EPOCHS = REQUESTED_TYPES.filter((type) => type.startsWith('EPOCH_'));

/** `EPOCH_SECONDS` is a time as a number. */
const typeLabel = (type: string): string =>
  EPOCHS.includes(type) ? `TIMESTAMP, from ${type.slice('EPOCH_'.length).toLowerCase()} since 1970` : type;

export const FieldTable = ({ draft, isBusy }: { draft: Draft; isBusy: boolean }) => (
  <div class="fields" aria-busy={isBusy}>
    <datalist id="import-columns">
      {draft.existing.value?.columns.map(({ name }) => (
        <option key={name} value={name} />
      ))}
    </datalist>
    <table>
      <thead>
        <tr>
          <th scope="col">Import</th>
          <th scope="col">Field</th>
          <th scope="col">First values</th>
          <th scope="col">Column</th>
          <th scope="col">Type</th>
        </tr>
      </thead>
      <tbody>
        {draft.mappings.map((_, field) => (
          <FieldRow key={field} draft={draft} field={field} />
        ))}
      </tbody>
    </table>
  </div>
);

function FieldRow({ draft, field }: { draft: Draft; field: number }) {
  const mapping = draft.mappings[field];
  const choice = draft.choices.value[field];
  if (mapping === undefined || choice === undefined) return null;
  const name = mapping.field === '' ? `Field ${field + 1}` : mapping.field;
  const problem = draft.problemOf(field);
  const problemId = `field-problem-${field}`;
  const isNew = draft.typeOf(choice.column) === undefined && choice.column !== 'id';
  const reason = choice.isTaken && choice.type !== mapping.type ? undefined : mapping.reason;
  return (
    <tr data-taken={choice.isTaken}>
      <td class="fields-take">
        <input
          type="checkbox"
          aria-label={`Import ${name}`}
          checked={choice.isTaken}
          onChange={(event) => draft.choose(field, { isTaken: event.currentTarget.checked })}
        />
      </td>
      <th scope="row">{name}</th>
      <td class="fields-values">
        {draft.samplesOf(field).map((value, i) => (
          <span key={i} class={value === null ? 'null' : undefined}>
            {value === null ? 'NULL' : value === '' ? '""' : oneLine(value)}
          </span>
        ))}
      </td>
      <td>
        <input
          class="mono"
          list="import-columns"
          aria-label={`Column of ${name}`}
          value={choice.column}
          disabled={!choice.isTaken}
          aria-invalid={problem !== ''}
          aria-describedby={problem === '' ? undefined : problemId}
          autocomplete="off"
          spellcheck={false}
          onInput={(event) => draft.choose(field, { column: event.currentTarget.value })}
        />
        {problem !== '' && (
          <p id={problemId} class="bad">
            {problem}
          </p>
        )}
      </td>
      <td>
        <TypeChoice draft={draft} field={field} name={name} isNew={isNew} />
        {reason !== undefined && <p class="quiet">{inConsole(reason)}</p>}
      </td>
    </tr>
  );
}

function TypeChoice({ draft, field, name, isNew }: { draft: Draft; field: number; name: string; isNew: boolean }) {
  const { type, column, isTaken } = draft.choices.value[field] ?? { type: 'TEXT', column: '', isTaken: false };
  const own = draft.typeOf(column);
  // An existing column keeps its type; only its times may be numbers.
  const types = isNew ? REQUESTED_TYPES : own === 'TIMESTAMP' ? [own, ...EPOCHS] : undefined;
  if (types === undefined) return <span class="mono fields-own">{own ?? type}</span>;
  return (
    <select
      aria-label={`Type of ${name}`}
      value={type}
      disabled={!isTaken}
      onChange={(event) => draft.choose(field, { type: event.currentTarget.value })}
    >
      {types.map((each) => (
        <option key={each} value={each}>
          {typeLabel(each)}
        </option>
      ))}
    </select>
  );
}
