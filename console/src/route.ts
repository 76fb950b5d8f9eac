/** The route: a fragment such as `#/tables/customers`, which browsers never send to the service. */
import { computed, signal } from '@preact/signals';

const fragment = signal(location.hash);
addEventListener('hashchange', () => (fragment.value = location.hash));

/** The decoded parts, such as `['tables', 'customers']`. */
export const route = computed(() => {
  const [path = ''] = fragment.value.replace(/^#\/?/, '').split('?');
  return path.split('/').filter(Boolean).map(decoded);
});

/** The query string after `?` in the fragment. */
export const routeQuery = computed(() => new URLSearchParams(fragment.value.split('?').slice(1).join('?')));

/** A link to the text of a query, which opens in a tab of that name. */
export const linkToQuery = (sql: string, name: string): string => {
  const query = Object.entries({ sql, name }).map(([key, value]) => `${key}=${encodeURIComponent(value)}`);
  return `#/sql?${query.join('&')}`;
};

export const linkTo = (...parts: string[]): string => `#/${parts.map(encodeURIComponent).join('/')}`;

export function goTo(...parts: string[]): void {
  location.hash = linkTo(...parts);
}

/** Changes the route without a new entry in the browser's history. */
export function replaceRoute(...parts: string[]): void {
  history.replaceState(null, '', linkTo(...parts));
  fragment.value = location.hash;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
