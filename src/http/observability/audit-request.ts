/** Writes one entry of the audit log for each ended request, whatever its outcome. */
import type { FastifyRequest } from 'fastify';
import type { AuditOperation } from '../../contract/audit.js';
import { actorOf, type Audit, BY_ITSELF, type Origin } from '../../engine/audit/audit.js';
import { runsAsReader } from '../admission.js';

/** Adds the entry of an ended request. */
export function auditRequest(audit: Audit, request: FastifyRequest): void {
  const operation = audit.isOff ? undefined : operationOf(request);
  if (operation === undefined) return;
  const outcome = outcomeOf(request);
  const { context } = request;
  if (outcome === 'ok' && context.route?.writesEntry === true) return;
  const statement = context.sql?.text ?? null;
  const [project, object] = [projectOf(request), context.object ?? objectOf(request)];
  audit.record(origin(request, context.status), {
    operation,
    outcome,
    project,
    object,
    statement,
    rows: context.rows,
  });
}

/** The origin, for a change that writes its own entry. */
export const originOf = (request: FastifyRequest): Origin =>
  origin(request, request.context.route?.success?.status ?? null);

function origin({ context, id }: FastifyRequest, status: number | null): Origin {
  const { account, caller } = context;
  if (account !== null) {
    return {
      ...BY_ITSELF,
      actor: 'command_line',
      actorId: account || null,
      requestId: id,
      startedAt: context.started,
    };
  }
  const { actor, actorId, actorName } = actorOf(caller);
  return { actor, actorId, actorName, requestId: id, address: context.address, status, startedAt: context.started };
}

/** undefined: not for the audit log. */
function operationOf(request: FastifyRequest): AuditOperation | undefined {
  const { caller, errorCode, route } = request.context;
  const word = route?.audit;
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

function projectOf({ context, params, body }: FastifyRequest): { id: string | null; name: string } | null {
  const { caller } = context;
  if (caller === null) return null;
  if (caller.project !== null) return caller.project;
  // The name that an administrator sent; there may be no such project.
  const created = context.route?.audit === 'project.create' ? textIn(body, 'name') : null;
  const name = textIn(params, 'project') ?? created;
  return name === null ? null : { id: null, name: name.slice(0, 63) };
}

/** Fields of bodies that name the object. */
const NAMES_OBJECT: Readonly<Record<string, string>> = {
  create_table: 'table_name',
  replay_quarantine: 'table',
  'server.add': 'name',
};

function objectOf({ params, body, context }: FastifyRequest): string | null {
  const given =
    textIn(params, 'token_id') ?? textIn(params, 'request_id') ?? textIn(params, 'server') ?? textIn(params, 'move');
  if (given !== null) return given;
  const table = textIn(params, 'table_name');
  if (table === null) return textIn(body, NAMES_OBJECT[context.route?.audit ?? ''] ?? '');
  const part =
    textIn(params, 'column_name') ??
    textIn(params, 'index_name') ??
    (context.route?.audit === 'add_column' ? textIn(body, 'name') : null);
  return part === null ? table : `${table}.${part}`;
}

/** A string field of a value of any shape. */
export function textIn(value: unknown, key: string): string | null {
  if (typeof value !== 'object' || value === null) return null;
  const text = (value as Record<string, unknown>)[key];
  return typeof text === 'string' ? text : null;
}
