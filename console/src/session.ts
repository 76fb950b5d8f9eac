/** The session of the console: a token, its scopes, and the client that sends it. */
import { signal } from '@preact/signals';
import { CdpClient } from '../../src/client/index.js';
import type { Scope } from '../../src/contract/names.js';

export interface Session {
  readonly client: CdpClient;
  readonly token: string;
  /** null for an admin token, which belongs to no project. */
  readonly project: { readonly id: string; readonly name: string } | null;
  readonly scopes: ReadonlySet<Scope>;
  /** The role of the project as which the token does everything; null: its scopes decide. */
  readonly role: string | null;
  /** Aborted when the session ends, so that its running requests end, too. */
  readonly left: AbortSignal;
}

/** null: nobody has logged in. */
export const session = signal<Session | null>(null);

/** Why the last session ended, if its token became invalid. */
export const farewell = signal('');

export const hasScope = (scope: Scope): boolean => session.value?.scopes.has(scope) ?? false;

/** Whether the token may manage the project's roles and events: none that acts as a role may. */
export const managesRoles = (): boolean => hasScope('schema:write') && session.value?.role === null;

/** Whether the token may manage what runs by itself: none that acts as a role may. */
export const managesSchedules = (): boolean => hasScope('sql:write') && session.value?.role === null;

/** Whether the token may see what there is about people: none that acts as a role may. */
export const seesPeople = (): boolean => hasScope('schema:read') && session.value?.role === null;

export const isAdmin = (): boolean => session.value !== null && session.value.project === null;

/** The session, for screens that are only shown within one. */
export function currentSession(): Session {
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
  const { scopes, role } = rights;
  session.value = { client, token, project, scopes: new Set(scopes), role, left: leaving.signal };
}

/** The token that the user asked this tab to keep. */
export const rememberedToken = (): string | null => sessionStorage.getItem(KEY);

export function leave(why = ''): void {
  sessionStorage.removeItem(KEY);
  farewell.value = why;
  session.value = null;
  leaving.abort();
}

/** If a token is revoked or expires, the next request of any screen ends the session. */
export const watchedFetch: typeof fetch = async (input, init) => {
  const response = await fetch(input, init);
  if (response.status === 401 && session.value !== null) leave('The token is no longer valid. Enter another one.');
  return response;
};
