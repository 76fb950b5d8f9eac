/** Who uses the console: a token, what it may do, and the client that sends it. */
import { signal } from '@preact/signals';
import { CdpClient } from '../../src/client/index.js';
import type { Scope } from '../../src/contract/names.js';

export interface Session {
  readonly client: CdpClient;
  readonly token: string;
  /** null for an admin token, which belongs to no project. */
  readonly project: { readonly id: string; readonly name: string } | null;
  readonly scopes: ReadonlySet<Scope>;
  /** Aborted once it has ended: what runs for it ends too. */
  readonly left: AbortSignal;
}

/** null: nobody has entered. */
export const session = signal<Session | null>(null);

/** Why the last session ended, if its token no longer worked. */
export const farewell = signal('');

export const may = (scope: Scope): boolean => session.value?.scopes.has(scope) ?? false;

export const isAdmin = (): boolean => session.value !== null && session.value.project === null;

/** The session of screens that are only shown within one. */
export function entered(): Session {
  if (session.value === null) throw new Error('No session');
  return session.value;
}

const KEY = 'cdp-console-token';

let leaving = new AbortController();

/** @throws CdpError if the service does not accept the token */
export async function enter(given: string, remember: boolean): Promise<void> {
  const token = given.trim();
  const client = new CdpClient({ url: location.origin, token, fetch: watchedFetch, maxRetries: 2 });
  const { project, token: rights } = await client.token();
  if (remember) sessionStorage.setItem(KEY, token);
  farewell.value = '';
  leaving = new AbortController();
  session.value = { client, token, project, scopes: new Set(rights.scopes), left: leaving.signal };
}

/** The token that the person asked this tab to keep. */
export const rememberedToken = (): string | null => sessionStorage.getItem(KEY);

export function leave(why = ''): void {
  sessionStorage.removeItem(KEY);
  farewell.value = why;
  session.value = null;
  leaving.abort();
}

/** A token that is revoked or expires while it is used ends the session, whichever screen notices. */
export const watchedFetch: typeof fetch = async (input, init) => {
  const response = await fetch(input, init);
  if (response.status === 401 && session.value !== null) leave('The token is no longer valid. Enter another one.');
  return response;
};
