/**
 * Admits a request before a byte of its body is read: checks the token (401), the origin and the scopes (403) and the rate (429),
 * rejects the request if its project's queue is full (503), then waits for memory (contract C2.7).
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { EngineError } from '../contract/errors.js';
import type { Scope } from '../contract/names.js';
import { requireTable } from '../engine/access/append-keys.js';
import type { RateLimitStatus } from '../engine/access/rate-limits.js';
import type { Caller } from '../engine/access/tokens.js';
import { WaitBudget } from '../db/wait-budget.js';
import type { Engine } from '../engine/engine.js';
import { MemoryBudget } from '../engine/limits/memory-budget.js';
import type { Route, Access } from './route.js';
import { bytesToReserve } from './body.js';
import { allowPage } from './edge/cors.js';
import { HttpError } from './response/error-exit.js';

export class Admission {
  private readonly memory = new MemoryBudget();

  constructor(private readonly engine: Engine) {}

  /**
   * Admits a request whose token is in its body, which has not been read: it gets memory of those that nobody knows.
   * @throws EngineError overloaded
   */
  async admitUnknown({ context, headers }: FastifyRequest, route: Route): Promise<void> {
    context.route = route;
    const budget = new WaitBudget(this.engine.databaseAccess.waitMs);
    context.reservation = await this.memory.reserve('', bytesToReserve(headers, route), budget, context.signal);
  }

  /**
   * @throws EngineError unauthorized, token_expired, origin_not_allowed, rate_limited, insufficient_scope, cdp_inactive,
   * database_unavailable, overloaded
   */
  async admit(request: FastifyRequest, reply: FastifyReply, route: Route): Promise<void> {
    const { context, headers } = request;
    context.route = route;
    const token = await (route.token?.(request) ?? bearerToken(headers));
    const caller = await this.engine.authenticator.authenticate(token, context.address);
    context.caller = caller;
    context.authenticatedAt = performance.now();
    allowPage(caller, request, reply);
    // The request counts even if the caller lacks the scope; insufficient_scope comes before rate_limited.
    const rate = this.engine.tokenRate?.count(caller);
    if (rate) setRateHeaders(reply, rate);
    authorize(caller, route.access);
    const { table_name: table } = request.params as { table_name?: string };
    if (table !== undefined) requireTable(caller, table);
    if (rate?.refusal) throw rate.refusal;
    await this.engine.appendRates.count(caller, 'requests', 1);
    if (caller.project !== null) {
      const project = this.engine.admit(caller.project, route.slot, context.span?.trace, caller.role);
      context.project = project;
      const bytes = bytesToReserve(headers, route);
      context.reservation?.release();
      context.reservation = await this.memory.reserve(project.id, bytes, project.waitBudget, context.signal);
    }
  }
}

/** `RateLimit` and `RateLimit-Policy` as in draft-ietf-httpapi-ratelimit-headers-10: structured fields (RFC 9651). */
function setRateHeaders(reply: FastifyReply, { rate, remaining, seconds }: RateLimitStatus): void {
  void reply
    .header('ratelimit-policy', `"default";q=${rate.requests};w=${rate.windowS}`)
    .header('ratelimit', `"default";r=${remaining};t=${seconds}`);
}

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
  requireAnyScope(caller, access);
}

/** @throws EngineError insufficient_scope naming the scope */
export const requireScope = (caller: Caller, scope: Scope): void => requireAnyScope(caller, [scope]);

/** @param scopes any of them is sufficient @throws EngineError insufficient_scope naming them */
export function requireAnyScope(caller: Caller, scopes: readonly Scope[]): void {
  if (!scopes.some((scope) => caller.scopes.has(scope))) throw lacks(scopes);
}

/** Free SQL runs as the reader if the body asks for it, or if the caller has no other right. */
export const runsAsReader = ({ scopes }: Caller, readOnly: boolean | undefined): boolean =>
  readOnly ?? !scopes.has('sql:write');

/** @param scopes any of them is sufficient */
const lacks = (scopes: readonly Scope[]) => insufficient(`The token lacks the scope ${scopes.join(' or ')}`);

const insufficient = (message: string) => new EngineError('insufficient_scope', message);

/** RFC 6750 section 2.1; the scheme is case-insensitive (RFC 9110 section 11.1). @throws EngineError unauthorized */
export function bearerToken({ authorization: header }: IncomingHttpHeaders): string {
  const match = header === undefined ? null : /^bearer +([\w\-.~+/]+=*) *$/i.exec(header);
  if (match === null) {
    // Without a token, the challenge has no error code (RFC 6750 section 3.1).
    throw new HttpError('unauthorized', 'The Authorization header must be "Bearer <token>"', {
      'www-authenticate': 'Bearer realm="cdp"',
    });
  }
  return match[1] ?? '';
}
