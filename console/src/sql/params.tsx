/**
 * An input for each `$n` of the statement at the cursor. Postgres reads the text as the type that its context requires.
 */
export function Params({
  count,
  names,
  values,
  onChange,
}: {
  count: number;
  /** What they are called, as far as that is known. */
  names: readonly string[];
  values: readonly (string | null)[];
  onChange: (values: readonly (string | null)[]) => void;
}) {
  if (count === 0) return null;
  const all = Array.from({ length: count }, (_, i) => values[i] ?? (i in values ? null : ''));
  const set = (at: number, value: string | null) => onChange(all.map((old, i) => (i === at ? value : old)));
  return (
    <fieldset class="params">
      <legend class="sr-only">Parameters</legend>
      {all.map((value, i) => (
        <div class="param" key={i}>
          <label class="mono" for={`param-${i}`}>
            ${i + 1}
            {names[i] !== undefined && ` ${names[i]}`}
          </label>
          <input
            id={`param-${i}`}
            class="mono"
            value={value ?? ''}
            disabled={value === null}
            placeholder={value === null ? 'NULL' : 'empty text'}
            spellcheck={false}
            autocomplete="off"
            onInput={(event) => set(i, event.currentTarget.value)}
          />
          <label class="check">
            <input
              type="checkbox"
              checked={value === null}
              aria-label={`$${i + 1} is NULL`}
              onChange={(event) => set(i, event.currentTarget.checked ? null : '')}
            />
            NULL
          </label>
        </div>
      ))}
    </fieldset>
  );
}
