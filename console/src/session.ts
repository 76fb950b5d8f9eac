/** The session of the console: a token, its scopes, and the client that sends it. */
import { signal } from '@preact/signals';
import { CdpClient } from '../../src/client/index.js';
import type { Scope } from '../../src/contract/names.js';
import { forget, isKept, keep } from './kept-tokens.js';
import { say } from './parts/announcements.js';

export interface Session {
  readonly client: CdpClient;
  readonly token: string;
  /** The name of the token; null for a JWT. */
  readonly tokenName: string | null;
  /** null for an admin token, which belongs to no project. */
  readonly project: { readonly id: string; readonly name: string } | null;
  readonly scopes: ReadonlySet<Scope>;
  /** The role of the project as which the token does everything; null: its scopes decide. */
  readonly role: string | null;
  /** The admin's session that has opened the project, and to which this one returns; null: a user has logged in. */
  readonly opener: Session | null;
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

/** Whether the token may see the settings of the feed and the webhooks: none that acts as a role may. */
export const looksAtFeed = (): boolean => hasScope('schema:read') && session.value?.role === null;

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

/** Project and role. */
export const nameOf = ({ project, role }: Session): string =>
  `${project?.name ?? 'admin'}${role === null ? '' : ` as ${role}`}`;

/** The same, and the token's own name. */
export const labelOf = (of: Session): string => nameOf(of) + (of.tokenName ? ` (${of.tokenName})` : '');

const KEY = 'cdp-console-token';

let leaving = new AbortController();

/** Where the token is kept: nowhere, for this tab, or for this browser, until it is forgotten. */
export type Keeping = 'no' | 'tab' | 'browser';

/** @throws CdpError if the service does not accept the token */
export async function enter(given: string, keeping: Keeping): Promise<void> {
  const token = given.trim();
  const next = await sessionOf(token, null);
  begin(next);
  if (keeping !== 'no') sessionStorage.setItem(KEY, token);
  if (keeping === 'browser') keepToken();
}

/** Keeps the token of the session in this browser. */
export function keepToken(): void {
  const { token } = currentSession();
  keep({ token, label: labelOf(currentSession()) });
}

/**
 * Begins a session with a token that the admin has made for a project. It is kept nowhere.
 * @throws CdpError if the service does not accept the token
 */
export async function openProject(token: string): Promise<void> {
  begin(await sessionOf(token, currentSession()));
}

/** Returns from an opened project to the admin's session. */
export function returnToOpener(): void {
  const { opener } = currentSession();
  if (opener !== null) begin(opener);
}

async function sessionOf(token: string, opener: Session | null): Promise<Session> {
  const client = new CdpClient({ url: location.origin, token, fetch: watchedFetch(token), maxRetries: 2 });
  const { project, token: rights } = await client.token();
  const { scopes, role, name: tokenName } = rights;
  return { client, token, tokenName, project, scopes: new Set(scopes), role, opener, left: leaving.signal };
}

function begin(next: Session): void {
  end();
  leaving = new AbortController();
  farewell.value = '';
  session.value = { ...next, left: leaving.signal };
}

/** What belongs to the session is dropped before the next one begins. */
function end(): void {
  session.value = null;
  leaving.abort();
}

/** The token that the user asked this tab to keep. */
export const rememberedToken = (): string | null => sessionStorage.getItem(KEY);

export function leave(why = ''): void {
  sessionStorage.removeItem(KEY);
  farewell.value = why;
  end();
}

/** If the token is revoked or expires, the next request of any screen ends its session, and this browser forgets it. */
export const watchedFetch =
  (token: string): typeof fetch =>
  async (input, init) => {
    const response = await fetch(input, init);
    if (response.status !== 401) return response;
    const wasKept = isKept(token);
    if (wasKept) forget(token);
    if (session.value?.token !== token) return response;
    if (session.value.opener !== null) {
      say(`The token for ${nameOf(session.value)} is no longer valid. Open the project again.`);
      returnToOpener();
    } else {
      leave(`The token is no longer valid${wasKept ? ', and was removed from this browser' : ''}. Enter another one.`);
    }
    return response;
  };
