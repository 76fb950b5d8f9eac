/** Form fields with labels. */
import { useSignal } from '@preact/signals';
import type { ComponentChildren, PartialInputHTMLAttributes, TargetedEvent } from 'preact';

interface Labeled {
  readonly label: ComponentChildren;
}

export const Field = ({ label, children }: Labeled & { children: ComponentChildren }) => (
  <label class="field">
    <span class="field-label">{label}</span>
    {children}
  </label>
);

type Input = Omit<PartialInputHTMLAttributes<HTMLInputElement>, 'label' | 'role' | 'type' | 'value' | 'onInput'>;

/** @param props.text a signal with the typed text; other properties go to the input */
export const TextField = ({ label, text, ...input }: Labeled & Input & { readonly text: { value: string } }) => (
  <Field label={label}>
    <input
      class="mono"
      autocomplete="off"
      spellcheck={false}
      {...input}
      value={text.value}
      onInput={(event) => (text.value = event.currentTarget.value)}
    />
  </Field>
);

/** For an input whose text takes effect when it loses the focus. Until then, no render replaces the typed text. */
export function useCommitted(value: string, onCommit: (value: string) => void) {
  const typed = useSignal<string | null>(null);
  return {
    value: typed.value ?? value,
    onInput: (event: TargetedEvent<HTMLInputElement>) => (typed.value = event.currentTarget.value),
    onChange: (event: TargetedEvent<HTMLInputElement>) => onCommit(event.currentTarget.value),
    onBlur: () => (typed.value = null),
  };
}

interface ChoiceProps extends Labeled {
  readonly value: string;
  readonly items: readonly (readonly [value: string, text: string])[];
  readonly onChange: (value: string) => void;
}

export const SelectField = ({ label, value, items, onChange }: ChoiceProps) => (
  <Field label={label}>
    <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
      {items.map(([each, text]) => (
        <option key={each} value={each}>
          {text}
        </option>
      ))}
    </select>
  </Field>
);

interface CheckProps extends Labeled {
  readonly isChecked: boolean;
  readonly onChange: (isChecked: boolean) => void;
}

export const CheckboxField = ({ label, isChecked, onChange }: CheckProps) => (
  <label class="check">
    <input type="checkbox" checked={isChecked} onChange={(event) => onChange(event.currentTarget.checked)} />
    <span>{label}</span>
  </label>
);
