/** Who calls and what they may do: 401 before 403 before anything else (contract section 1). */
import type { IncomingHttpHeaders } from 'node:http';
import { EngineError } from '../contract/errors.js';
import type { Scope } from '../contract/names.js';
import { HttpError } from './response/http-error.js';
import type { Caller } from '../engine/access/tokens.js';

/** What a route asks of its caller: one of these scopes of the project's token, any token at all, or an admin token. */
export type Access = readonly [Scope, ...Scope[]] | 'any' | 'admin';

/** @throws EngineError cdp_inactive, insufficient_scope */
export function authorize(caller: Caller, access: Access): void {
  if (access === 'admin') {
    if (caller.project !== null) throw insufficient('This operation needs an admin token');
    return;
  }
  if (caller.project === null && access === 'any') return;
  if (caller.project === null)
    throw insufficient('An admin token manages projects and tokens; it does not give access to project data');
  if (caller.project.status !== 'active') {
    throw new EngineError('cdp_inactive', 'The CDP is inactive for this project');
  }
  if (access === 'any') return;
  if (!access.some((scope) => caller.scopes.has(scope))) throw lacks(access);
}

/** @throws EngineError insufficient_scope naming the scope */
export function requireScope(caller: Caller, scope: Scope): void {
  if (!caller.scopes.has(scope)) throw lacks([scope]);
}

/** Free SQL runs as the reader if the body asks for it, or if the caller has no other right. */
export const runsAsReader = ({ scopes }: Caller, readOnly: boolean | undefined): boolean =>
  readOnly ?? !scopes.has('sql:write');

/** @param scopes any one of which would do */
const lacks = (scopes: readonly Scope[]) => insufficient(`The token lacks the scope ${scopes.join(' or ')}`);

const insufficient = (message: string) => new EngineError('insufficient_scope', message);

/** RFC 6750 section 2.1; the scheme's name in any case (RFC 9110 section 11.1). @throws EngineError unauthorized */
export function bearerToken({ authorization: header }: IncomingHttpHeaders): string {
  const match = header === undefined ? null : /^bearer +([\w\-.~+/]+=*) *$/i.exec(header);
  if (match === null) {
    // Without a token there is nothing to call invalid (RFC 6750 section 3.1).
    throw new HttpError('unauthorized', 'The Authorization header must be "Bearer <token>"', {
      'www-authenticate': 'Bearer realm="cdp"',
    });
  }
  return match[1] ?? '';
}
