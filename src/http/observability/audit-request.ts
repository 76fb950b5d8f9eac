/** Writes one entry of the audit log for each ended request, whatever its outcome. */
import type { FastifyRequest } from 'fastify';
import { BY_ITSELF, type AuditOrigin } from '../../contract/audit.js';
import { actorOf, type Audit } from '../../engine/audit/audit.js';
import { runsAsReader } from '../admission.js';

/** Adds the entry of an ended request. */
export function auditRequest(audit: Audit, request: FastifyRequest): void {
  const operation = audit.isOff ? undefined : auditedOperation(request);
  if (operation === undefined) return;
  const outcome = outcomeOf(request);
  const { context } = request;
  if (outcome === 'ok' && context.route?.writesEntry === true) return;
  const statement = context.sql?.text ?? null;
  const [project, object] = [auditedProject(request), context.auditObject ?? auditedObject(request)];
  audit.record(origin(request, context.status), {
    operation,
    isChange: context.route?.audit.isChange ?? true,
    isPolled: context.route?.audit.isPolled ?? false,
    outcome,
    project,
    object,
    statement,
    rows: context.rows,
  });
}

/** The origin, for a change that writes its own entry. */
export const auditOriginOf = (request: FastifyRequest): AuditOrigin =>
  origin(request, request.context.route?.success?.status ?? null);

function origin({ context, id }: FastifyRequest, status: number | null): AuditOrigin {
  const { account, caller } = context;
  if (account !== null) {
    return {
      ...BY_ITSELF,
      actor: 'command_line',
      actorId: account || null,
      requestId: id,
      startedAt: context.startedAt,
    };
  }
  const { actor, actorId, actorName } = actorOf(caller);
  return { actor, actorId, actorName, requestId: id, address: context.address, status, startedAt: context.startedAt };
}

/** undefined: not for the audit log. */
function auditedOperation(request: FastifyRequest): string | undefined {
  const { caller, errorCode, route } = request.context;
  const word = route?.audit.operation;
  if (word === undefined || (word === 'metrics' && errorCode === null)) return undefined;
  if (errorCode === 'unauthorized' || errorCode === 'token_expired') return 'authentication';
  if (request.context.project?.dryRun) return 'dry_run';
  if (word !== 'sql' || caller === null) return word;
  return runsAsReader(caller, request.context.sql?.readOnly) ? 'sql_read' : 'sql';
}

/** A success counts as one even if the client has disconnected. */
function outcomeOf({ context: { errorCode, clientGone } }: FastifyRequest): string {
  if (errorCode === null) return 'ok';
  return clientGone && errorCode !== 'outcome_unknown' ? 'client_gone' : errorCode;
}

function auditedProject({ context, params, body }: FastifyRequest): { id: string | null; name: string } | null {
  const { caller } = context;
  if (caller === null) return null;
  if (caller.project !== null) return caller.project;
  // The name that an administrator sent; there may be no such project.
  const name = textIn(params, 'project') ?? textIn(body, context.route?.audit.project);
  return name === null ? null : { id: null, name: name.slice(0, 63) };
}

function auditedObject({ params, body, context }: FastifyRequest): string | null {
  const [value] = ['token_id', 'request_id', 'server', 'move', 'role_name', 'name'].flatMap(
    (key) => textIn(params, key) ?? [],
  );
  if (value !== undefined) return value;
  const table = textIn(params, 'table_name');
  const objectName = textIn(body, context.route?.audit.object);
  if (table === null) return objectName;
  const part = textIn(params, 'column_name') ?? textIn(params, 'index_name') ?? objectName;
  return part === null ? table : `${table}.${part}`;
}

/** A string field of a value of any shape. */
export function textIn(value: unknown, key: string | undefined): string | null {
  if (typeof value !== 'object' || value === null || key === undefined) return null;
  const text = (value as Record<string, unknown>)[key];
  return typeof text === 'string' ? text : null;
}
