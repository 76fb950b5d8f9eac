/** A form with the filters of a list. They are part of the URL, so that a filtered list can be bookmarked. */
import type { ComponentChildren } from 'preact';
import { Field } from './fields.js';
import { linkTo, routeQuery } from '../route.js';

/** The names of its fields are those in the URL. */
export function Filters({ screen, children }: { screen: string; children: ComponentChildren }) {
  const apply = (event: Event) => {
    event.preventDefault();
    const chosen = new URLSearchParams();
    for (const [name, value] of new FormData(event.currentTarget as HTMLFormElement)) {
      if (typeof value !== 'string' || value.trim() === '') continue;
      const isTime = name === 'since' || name === 'until';
      chosen.set(name, isTime ? new Date(value).toISOString() : value.trim());
    }
    location.hash = `${linkTo(screen)}${chosen.size === 0 ? '' : `?${chosen}`}`;
  };
  return (
    <form class="filters" onSubmit={apply}>
      {children}
      <div class="filters-end">
        <button type="submit" class="button is-primary">
          Apply
        </button>
        {routeQuery.value.size > 0 && (
          <a class="button is-quiet" href={linkTo(screen)}>
            Clear
          </a>
        )}
      </div>
    </form>
  );
}

interface FilterProps {
  readonly name: string;
  readonly label: string;
}

interface ChoiceProps extends FilterProps {
  readonly choices: Iterable<string>;
  /** What a choice is called, if not by its value. */
  readonly names?: ReadonlyMap<string, string>;
  /** What the empty choice means; default: all. */
  readonly none?: string;
}

/** What the URL has can always be chosen, whether or not it is known. */
export function ChoiceFilter({ name, label, choices, names, none = 'all' }: ChoiceProps) {
  const chosen = routeQuery.value.get(name) ?? '';
  return (
    <Field label={label}>
      <select name={name}>
        {[...new Set(['', ...choices, chosen])].map((choice) => (
          <option key={choice} value={choice} selected={choice === chosen}>
            {choice === '' ? none : (names?.get(choice) ?? choice)}
          </option>
        ))}
      </select>
    </Field>
  );
}

/** `since` and `until` in the user's time zone. */
export const TimeFilters = () => (
  <>
    {(['since', 'until'] as const).map((name) => (
      <Field key={name} label={name === 'since' ? 'From' : 'To'}>
        <input type="datetime-local" name={name} value={local(routeQuery.value.get(name))} />
      </Field>
    ))}
  </>
);

/** The value of an input for local time. */
function local(time: string | null): string {
  const date = new Date(time ?? '');
  if (Number.isNaN(date.getTime())) return '';
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** The filters that are in the URL. */
export function filtersIn(query: URLSearchParams, names: readonly string[]): URLSearchParams {
  const filters = new URLSearchParams();
  for (const name of names) {
    const value = query.get(name);
    if (value) filters.set(name, value);
  }
  return filters;
}
