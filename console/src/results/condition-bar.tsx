/** A form that adds a condition, and the conditions that rows must meet now. */
import './result-view.css';
import { useSignal } from '@preact/signals';
import { IconButton } from '../parts/icon.js';
import { type Condition, inWords, kindOf, type Operator, OPERATORS, operatorsOf, takesValue } from './conditions.js';
import type { ResultColumn } from './result.js';

interface ConditionBarProps {
  readonly columns: readonly ResultColumn[];
  readonly conditions: readonly Condition[];
  readonly onChange: (conditions: readonly Condition[]) => void;
  /** Why a condition cannot be met; '' if it can. */
  readonly faultOf?: (condition: Condition, type: string) => string;
}

export function ConditionBar({ columns, conditions, onChange, faultOf }: ConditionBarProps) {
  const column = useSignal('');
  const operator = useSignal<Operator | ''>('');
  const value = useSignal('');
  const fault = useSignal('');
  const chosen = columns.find(({ name }) => name === column.value) ?? columns[0];
  if (chosen === undefined) return null;
  const operators = operatorsOf(chosen.type);
  const wanted = operators.find((each) => each === operator.value) ?? operators[0] ?? 'null';
  const hasValue = takesValue(wanted);

  const add = (event: Event) => {
    event.preventDefault();
    const condition = { column: chosen.name, operator: wanted, value: hasValue ? value.value : '' };
    // Of text, nothing is a value, too.
    const isMissing = hasValue && value.value === '' && kindOf(chosen.type) !== 'text';
    fault.value = isMissing ? 'Enter a value' : (faultOf?.(condition, chosen.type) ?? '');
    if (fault.value !== '') return;
    value.value = '';
    const isThere = conditions.some((each) => inWords(each) === inWords(condition));
    if (!isThere) onChange([...conditions, condition]);
  };

  return (
    <div class="conditions">
      <form class="conditions-form" aria-label="Filter" onSubmit={add}>
        <select
          class="mono"
          aria-label="Column to filter by"
          value={chosen.name}
          onChange={(event) => {
            column.value = event.currentTarget.value;
            fault.value = '';
          }}
        >
          {columns.map(({ name }) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
        <select
          aria-label="Condition"
          value={wanted}
          onChange={(event) => (operator.value = event.currentTarget.value as Operator)}
        >
          {operators.map((each) => (
            <option key={each} value={each}>
              {OPERATORS[each]}
            </option>
          ))}
        </select>
        {hasValue && (
          <input
            class="mono"
            aria-label="Value"
            autocomplete="off"
            spellcheck={false}
            value={value.value}
            aria-invalid={fault.value !== ''}
            onInput={(event) => (value.value = event.currentTarget.value)}
          />
        )}
        <button type="submit" class="button">
          Filter
        </button>
      </form>
      {fault.value !== '' && (
        <p class="bad" role="alert">
          {fault.value}
        </p>
      )}
      {conditions.length > 0 && (
        <ul class="conditions-list" aria-label="Conditions">
          {conditions.map((condition) => (
            <li key={inWords(condition)}>
              <span class="conditions-text">{inWords(condition)}</span>
              <IconButton
                icon="close"
                label={`Remove: ${inWords(condition)}`}
                title="Remove"
                onClick={() => onChange(conditions.filter((each) => each !== condition))}
              />
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
