/** From requests to entries of the audit log: one for each request that is over, on whatever way it ended. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { AuditOperation } from '../../contract/audit.js';
import { type Audit, BY_ITSELF, type Origin } from '../../engine/audit/audit.js';
import { runsAsReader } from '../gate/authenticate.js';

/** The answer is out, or the client has left: then what becomes of its request is still to be seen. */
export function responseClosed(audit: Audit, request: FastifyRequest, reply: FastifyReply): void {
  const { exchange } = request;
  exchange.closed = true;
  // Whether a broken connection took the last bytes, Node does not say; that an answer was begun, it does.
  exchange.clientGone = !exchange.settled && exchange.errorCode === null;
  exchange.status = reply.raw.headersSent ? reply.raw.statusCode : null;
  if (exchange.settled) record(audit, request);
}

/** The handler has ended, or the error exit has answered in its place. */
export function requestSettled(audit: Audit, request: FastifyRequest): void {
  const { exchange } = request;
  if (exchange.settled) return;
  exchange.settled = true;
  if (exchange.closed) record(audit, request);
}

/** Who asks, for a change that writes its own entry. */
export const originOf = (request: FastifyRequest): Origin =>
  origin(request, request.exchange.route?.success?.status ?? null);

function record(audit: Audit, request: FastifyRequest): void {
  const operation = audit.isOff ? undefined : operationOf(request);
  if (operation === undefined) return;
  const outcome = outcomeOf(request);
  const { exchange } = request;
  if (outcome === 'ok' && exchange.route?.writesEntry === true) return;
  const statement = operation === 'sql' || operation === 'sql_read' ? textIn(request.body, 'sql') : null;
  const [project, object] = [projectOf(request), objectOf(request)];
  audit.record(origin(request, exchange.status), {
    operation,
    outcome,
    project,
    object,
    statement,
    rows: exchange.rows,
  });
}

function origin({ exchange, id }: FastifyRequest, status: number | null): Origin {
  const { account, caller } = exchange;
  if (account !== null) {
    return {
      ...BY_ITSELF,
      actor: 'command_line',
      actorId: account || null,
      requestId: id,
      startedAt: exchange.started,
    };
  }
  const known = caller !== null;
  const actor = !known ? 'unknown' : caller.project === null ? 'admin' : caller.name === null ? 'jwt' : 'token';
  return {
    actor,
    actorId: known ? caller.id : null,
    actorName: known ? caller.name : null,
    requestId: id,
    address: exchange.address,
    status,
    startedAt: exchange.started,
  };
}

/** undefined: nothing that the log is about. */
function operationOf(request: FastifyRequest): AuditOperation | undefined {
  const { caller, errorCode, route } = request.exchange;
  const word = route?.audit;
  if (word === undefined || (word === 'metrics' && errorCode === null)) return undefined;
  if (errorCode === 'unauthorized' || errorCode === 'token_expired') return 'authentication';
  if (word !== 'sql' || caller === null) return word;
  const readOnly = (request.body as { read_only?: unknown } | null | undefined)?.read_only;
  return runsAsReader(caller, typeof readOnly === 'boolean' ? readOnly : undefined) ? 'sql_read' : 'sql';
}

/** What was done without a failure stays done, also where nobody waited for it. */
function outcomeOf({ exchange: { errorCode, clientGone } }: FastifyRequest): string {
  if (errorCode === null) return 'ok';
  return clientGone && errorCode !== 'outcome_unknown' ? 'client_gone' : errorCode;
}

function projectOf({ exchange, params, body }: FastifyRequest): { id: string | null; name: string } | null {
  const { caller } = exchange;
  if (caller === null) return null;
  if (caller.project !== null) return caller.project;
  // What an administrator named; there may be no such project.
  const name = textIn(params, 'project') ?? textIn(body, 'name');
  return name === null ? null : { id: null, name: name.slice(0, 63) };
}

function objectOf({ params, body, exchange }: FastifyRequest): string | null {
  const token = textIn(params, 'token_id');
  if (token !== null) return token;
  const table = textIn(params, 'table_name');
  if (table === null) return exchange.route?.audit === 'create_table' ? textIn(body, 'table_name') : null;
  const column =
    textIn(params, 'column_name') ?? (exchange.route?.audit === 'add_column' ? textIn(body, 'name') : null);
  return column === null ? table : `${table}.${column}`;
}

/** A text in something that may be of any shape. */
function textIn(value: unknown, key: string): string | null {
  if (typeof value !== 'object' || value === null) return null;
  const text = (value as Record<string, unknown>)[key];
  return typeof text === 'string' ? text : null;
}
