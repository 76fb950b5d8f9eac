/** What a request passes before a byte of its body is read: its token, its rate, its scope, the queue, and memory. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Engine } from '../engine/engine.js';
import { TOO_MANY_WAITING } from '../engine/limits/slots.js';
import type { UndocumentedRoute } from './api/route.js';
import { authorize, bearerToken } from './authorization.js';
import { announcedBytes, MemoryBudget } from './limits/memory-budget.js';
import { type Rate, RateLimit } from './limits/rate-limit.js';

export class Admission {
  private readonly rateLimit: RateLimit | null;
  private readonly memory = new MemoryBudget();

  constructor(
    private readonly engine: Engine,
    rate: Rate | null,
  ) {
    this.rateLimit = rate === null ? null : new RateLimit(rate);
  }

  /** @throws EngineError unauthorized, token_expired, rate_limited, insufficient_scope, cdp_inactive, database_unavailable, overloaded */
  async admit(request: FastifyRequest, reply: FastifyReply, route: UndocumentedRoute): Promise<void> {
    const { context, headers } = request;
    context.route = route;
    const caller = await this.engine.authenticate((route.token ?? bearerToken)(headers), context.address);
    context.caller = caller;
    // Counted before it is known whether the caller may do this, and refused after.
    const oneTooMany = this.rateLimit?.count(caller, reply) ?? null;
    authorize(caller, route.access);
    if (oneTooMany !== null) throw oneTooMany;
    if (caller.project !== null) {
      if (route.work !== null) {
        this.engine.requireServer(caller.project);
        if (this.engine.isFull(caller.project, route.work)) throw TOO_MANY_WAITING;
      }
      const project = this.engine.project(caller.project, context.span?.trace);
      context.project = project;
      const bytes = announcedBytes(headers);
      context.reservation = await this.memory.reserve(project.id, bytes, project.waitBudget, context.signal);
    }
    context.authenticated = performance.now();
  }
}
