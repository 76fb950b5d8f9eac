/** Tokens that the user has asked this browser to keep, in `localStorage`, until they are forgotten or refused. */
import { signal } from '@preact/signals';

export interface KeptToken {
  readonly token: string;
  /** Project, role and the token's own name, as the menu shows them. */
  readonly label: string;
}

const KEY = 'cdp-console-tokens';

export const keptTokens = signal<readonly KeptToken[]>(stored());

// Another window has kept or forgotten one.
addEventListener('storage', (event) => {
  if (event.key === KEY || event.key === null) keptTokens.value = stored();
});

export const isKept = (token: string): boolean => keptTokens.value.some((kept) => kept.token === token);

export function keep(kept: KeptToken): void {
  const others = stored().filter(({ token }) => token !== kept.token);
  store([...others, kept].sort((a, b) => a.label.localeCompare(b.label)));
}

export const forget = (token: string): void => store(stored().filter((kept) => kept.token !== token));

export const forgetAll = (): void => store([]);

function store(all: readonly KeptToken[]): void {
  if (all.length === 0) localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, JSON.stringify(all));
  keptTokens.value = all;
}

function stored(): readonly KeptToken[] {
  return JSON.parse(localStorage.getItem(KEY) ?? '[]') as KeptToken[];
}
