/** Webhooks: endpoints that the service calls with the changes of a project (docs/webhooks.md). */
import { EngineError } from '../../contract/errors.js';
import { counted } from '../../contract/message-text.js';
import { Type } from '../../contract/schema.js';
import { CHANGE_OPERATIONS } from '../../contract/wire/changes.js';
import * as wire from '../../contract/wire/webhooks.js';
import type { ReadsAs, WebhookRow } from '../../feed/webhooks/webhooks.js';
import { auditOriginOf } from '../observability/audit-request.js';
import type { Call } from '../route.js';
import { projectOfOwner } from './call-inputs.js';
import { type Operation, succeeds } from './operation.js';

const WebhookInPath = Type.Object({ webhook_id: Type.String() });

const idInPath = ({ request }: Call): string => (request.params as { webhook_id: string }).webhook_id;

const ID = '0198c7a2-1f6e-7cc0-9a42-0d6e6f1b2c3d';

const EXAMPLE: wire.Webhook = {
  id: ID,
  url: 'https://example.com/changes',
  tables: ['customers'],
  ops: ['insert', 'update', 'delete'],
  columns: 'all',
  reads_as: 'writer',
  status: 'active',
  reason: null,
  cursor: '9f3a01c7.1a2b3c4.2',
  attempts: 0,
  failing_since: null,
  next_attempt_at: null,
  error: null,
  delivered_at: '2026-01-31T09:30:00.000Z',
  previous_secret_until: null,
  created_at: '2026-01-31T09:00:00.000Z',
};

const SECRET_EXAMPLE = `whsec_${Buffer.alloc(32).toString('base64')}`;

const OWNER = ', and where changes are sent is not a matter of roles';

/** The project as it is now: what the token was looked up with may be a second old. */
const currentRow = (call: Call) => call.engine.projects.get(projectOfOwner(call, OWNER).row.name);

/**
 * A webhook is a way to read, so whoever makes one must be allowed to.
 * @throws EngineError insufficient_scope
 */
function readsAs({ caller: { scopes } }: Call): ReadsAs {
  if (scopes.has('sql:write')) return 'writer';
  if (scopes.has('sql:read')) return 'reader';
  throw new EngineError(
    'insufficient_scope',
    'The token lacks the scope sql:read or sql:write: a webhook sends only what its creator may read',
  );
}

const entryOf = ({ engine, request }: Call, operation: string) =>
  engine.audit.entryOfChange(auditOriginOf(request), { operation });

const CHANGE_ERRORS = ['not_found', 'outcome_unknown'] as const;
const READ_ERRORS = ['cursor_expired', 'request_in_flight', ...CHANGE_ERRORS] as const;

const CREATE_WEBHOOK: Operation = {
  method: 'POST',
  url: '/api/cdp/webhooks',
  access: ['schema:write'],
  operationId: 'createWebhook',
  summary: 'Send changes to an endpoint',
  description:
    'The token also needs sql:read or sql:write. The secret, which signs what is sent, is shown only in this answer.',
  tag: 'data',
  audit: { operation: 'create_webhook', isChange: true },
  writesEntry: true,
  slot: null,
  body: wire.CreateWebhookBody,
  example: { url: EXAMPLE.url, tables: ['customers'] },
  success: succeeds(201, wire.WebhookSecretResponse, 'webhook created', { webhook: EXAMPLE, secret: SECRET_EXAMPLE }),
  errors: READ_ERRORS,
  async handle(call) {
    const row = await currentRow(call);
    const body = call.request.body as wire.CreateWebhookBody;
    const entry = entryOf(call, 'create_webhook');
    const { webhook, secret } = await call.engine.webhooks.create(row, readsAs(call), body, entry);
    return { body: { success: true, message: 'webhook created', webhook: shown(webhook), secret } };
  },
};

const LIST_WEBHOOKS: Operation = {
  method: 'GET',
  url: '/api/cdp/webhooks',
  access: ['schema:read'],
  operationId: 'listWebhooks',
  summary: 'List the webhooks of the project',
  tag: 'data',
  audit: { operation: 'list_webhooks', isChange: false, isPolled: true },
  slot: null,
  success: succeeds(200, wire.WebhooksResponse, '1 webhook', { webhooks: [EXAMPLE] }),
  errors: [],
  async handle(call) {
    const webhooks = await call.engine.webhooks.list(projectOfOwner(call, OWNER).row);
    return { body: { success: true, message: counted(webhooks.length, 'webhook'), webhooks: webhooks.map(shown) } };
  },
};

const READ_WEBHOOK: Operation = {
  method: 'GET',
  url: '/api/cdp/webhooks/:webhook_id',
  access: ['schema:read'],
  operationId: 'readWebhook',
  summary: 'Show a webhook, and how far it is',
  tag: 'data',
  audit: { operation: 'read_webhook', isChange: false, isPolled: true },
  slot: null,
  params: WebhookInPath,
  success: succeeds(200, wire.WebhookResponse, 'webhook found', { webhook: EXAMPLE }),
  errors: ['not_found'],
  async handle(call) {
    const webhook = await call.engine.webhooks.get(projectOfOwner(call, OWNER).row, idInPath(call));
    return { body: { success: true, message: 'webhook found', webhook: shown(webhook) } };
  },
};

const CHANGE_WEBHOOK: Operation = {
  method: 'PUT',
  url: '/api/cdp/webhooks/:webhook_id',
  access: ['schema:write'],
  operationId: 'changeWebhook',
  summary: 'Change, pause or resume a webhook',
  description:
    'What is missing stays as it is. Except to pause and resume, the token also needs sql:read or sql:write, and from then on its rights decide what is sent.',
  tag: 'data',
  audit: { operation: 'change_webhook', isChange: true },
  writesEntry: true,
  slot: null,
  params: WebhookInPath,
  body: wire.ChangeWebhookBody,
  example: { active: false },
  success: succeeds(200, wire.WebhookResponse, 'webhook changed', { webhook: { ...EXAMPLE, status: 'paused' } }),
  errors: CHANGE_ERRORS,
  async handle(call) {
    const row = await currentRow(call);
    const body = call.request.body as wire.ChangeWebhookBody;
    const isOnlyActive = Object.keys(body).every((field) => field === 'active');
    const reader = isOnlyActive ? null : readsAs(call);
    const entry = entryOf(call, 'change_webhook');
    const webhook = await call.engine.webhooks.change(row, idInPath(call), reader, body, entry);
    return { body: { success: true, message: 'webhook changed', webhook: shown(webhook) } };
  },
};

const ROTATE_SECRET: Operation = {
  method: 'POST',
  url: '/api/cdp/webhooks/:webhook_id/secret',
  access: ['schema:write'],
  operationId: 'rotateWebhookSecret',
  summary: 'Give a webhook a new secret',
  description: 'Both secrets sign for a time, a signature each, so that the endpoint can change meanwhile.',
  tag: 'data',
  audit: { operation: 'rotate_webhook_secret', isChange: true },
  writesEntry: true,
  slot: null,
  params: WebhookInPath,
  body: wire.RotateSecretBody,
  example: { previous_hours: 24 },
  success: succeeds(200, wire.WebhookSecretResponse, 'webhook has a new secret', {
    webhook: { ...EXAMPLE, previous_secret_until: '2026-02-01T09:30:00.000Z' },
    secret: SECRET_EXAMPLE,
  }),
  errors: CHANGE_ERRORS,
  async handle(call) {
    const row = await currentRow(call);
    const { previous_hours: hours = wire.WEBHOOK_LIMITS.rotationHours } = call.request.body as wire.RotateSecretBody;
    const entry = entryOf(call, 'rotate_webhook_secret');
    const { webhook, secret } = await call.engine.webhooks.rotate(row, idInPath(call), hours, entry);
    return { body: { success: true, message: 'webhook has a new secret', webhook: shown(webhook), secret } };
  },
};

const DELETE_WEBHOOK: Operation = {
  method: 'DELETE',
  url: '/api/cdp/webhooks/:webhook_id',
  access: ['schema:write'],
  operationId: 'deleteWebhook',
  summary: 'Delete a webhook',
  tag: 'data',
  audit: { operation: 'delete_webhook', isChange: true },
  writesEntry: true,
  slot: null,
  params: WebhookInPath,
  success: succeeds(200, wire.DeleteWebhookResponse, 'webhook deleted', { id: ID }),
  errors: CHANGE_ERRORS,
  async handle(call) {
    const id = idInPath(call);
    await call.engine.webhooks.delete(await currentRow(call), id, entryOf(call, 'delete_webhook'));
    return { body: { success: true, message: 'webhook deleted', id } };
  },
};

const TEST_WEBHOOK: Operation = {
  method: 'POST',
  url: '/api/cdp/webhooks/:webhook_id/test',
  access: ['schema:write'],
  operationId: 'testWebhook',
  summary: 'Send a message without changes to the endpoint, and show its answer',
  tag: 'data',
  audit: { operation: 'test_webhook', isChange: true },
  slot: null,
  waits: true,
  params: WebhookInPath,
  success: succeeds(200, wire.WebhookTestResponse, 'the endpoint has confirmed it', {
    test: { delivered: true, status: 200, error: null, duration_ms: 87 },
  }),
  errors: ['not_found'],
  async handle(call) {
    const test = await call.engine.webhooks.test(await currentRow(call), idInPath(call), call.signal);
    const message = test.delivered ? 'the endpoint has confirmed it' : 'the endpoint has not confirmed it';
    return { body: { success: true, message, test } };
  },
};

const LIST_DELIVERIES: Operation = {
  method: 'GET',
  url: '/api/cdp/webhooks/:webhook_id/deliveries',
  access: ['schema:read'],
  operationId: 'listWebhookDeliveries',
  summary: 'List the last attempts to deliver changes',
  tag: 'data',
  audit: { operation: 'list_webhook_deliveries', isChange: false, isPolled: true },
  slot: null,
  params: WebhookInPath,
  success: succeeds(200, wire.WebhookDeliveriesResponse, '1 attempt', {
    deliveries: [
      {
        at: '2026-01-31T09:30:00.000Z',
        message_id: EXAMPLE.cursor,
        attempt: 1,
        changes: 2,
        status: 200,
        error: null,
        duration_ms: 87,
      },
    ],
  }),
  errors: ['not_found'],
  async handle(call) {
    const rows = await call.engine.webhooks.deliveries(projectOfOwner(call, OWNER).row, idInPath(call));
    const deliveries = rows.map(({ at, messageId, attempt, changes, status, error, durationMs }) => ({
      at: at.toISOString(),
      message_id: messageId,
      attempt,
      changes,
      status,
      error,
      duration_ms: durationMs,
    }));
    return { body: { success: true, message: counted(deliveries.length, 'attempt'), deliveries } };
  },
};

const REPLAY: Operation = {
  method: 'POST',
  url: '/api/cdp/webhooks/:webhook_id/replay',
  access: ['schema:write'],
  operationId: 'replayWebhook',
  summary: 'Send changes again, from a cursor on',
  description: 'Also resumes a webhook that is paused.',
  tag: 'data',
  audit: { operation: 'replay_webhook', isChange: true },
  writesEntry: true,
  slot: null,
  params: WebhookInPath,
  body: wire.ReplayWebhookBody,
  example: { from: '9f3a01c7.1a2b3c0.0' },
  success: succeeds(200, wire.WebhookResponse, 'changes are sent again', { webhook: EXAMPLE }),
  errors: READ_ERRORS,
  async handle(call) {
    const { from } = call.request.body as wire.ReplayWebhookBody;
    const entry = entryOf(call, 'replay_webhook');
    const webhook = await call.engine.webhooks.replay(await currentRow(call), idInPath(call), from, entry);
    return { body: { success: true, message: 'changes are sent again', webhook: shown(webhook) } };
  },
};

function shown(row: WebhookRow): wire.Webhook {
  const { id, url, tables, ops, columns, readsAs, isPaused, reason, cursor, attempts, error } = row;
  return {
    id,
    url,
    tables: tables === null ? 'all' : [...tables],
    ops: [...(ops ?? CHANGE_OPERATIONS)],
    columns: columns === null ? 'all' : [...columns],
    reads_as: readsAs,
    status: isPaused ? 'paused' : attempts > 0 ? 'failing' : 'active',
    reason,
    cursor,
    attempts,
    failing_since: row.failingSince?.toISOString() ?? null,
    next_attempt_at: isPaused ? null : (row.retryAt?.toISOString() ?? null),
    error,
    delivered_at: row.deliveredAt?.toISOString() ?? null,
    previous_secret_until: row.previousUntil?.toISOString() ?? null,
    created_at: row.createdAt.toISOString(),
  };
}

export const WEBHOOKS: readonly Operation[] = [
  CREATE_WEBHOOK,
  LIST_WEBHOOKS,
  READ_WEBHOOK,
  CHANGE_WEBHOOK,
  ROTATE_SECRET,
  DELETE_WEBHOOK,
  TEST_WEBHOOK,
  LIST_DELIVERIES,
  REPLAY,
];
