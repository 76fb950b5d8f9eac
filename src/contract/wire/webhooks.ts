/** Webhooks on the wire: endpoints that the service calls with changes, and what it has sent them (docs/webhooks.md). */
import { CURSOR_PATTERN } from '../patterns.js';
import { STRICT, type Static, Type } from '../schema.js';
import { CHANGE_OPERATIONS } from './changes.js';
import { success } from './fields.js';

export const WEBHOOK_LIMITS = {
  perProject: 50,
  /** Attempts that are listed. */
  deliveries: 100,
  /** A delivery has at most this many changes. */
  changes: 100,
  /** Hours for which a previous secret also signs. */
  rotationHours: 24,
} as const;

const names = (what: string, maxLength: number) =>
  Type.Union(
    [
      Type.Literal('all'),
      Type.Array(Type.String({ minLength: 1, maxLength }), { minItems: 1, maxItems: 500, uniqueItems: true }),
    ],
    { description: what },
  );

const FIELDS = {
  url: Type.String({
    minLength: 1,
    maxLength: 2_048,
    description: 'An https URL at a public address. The operator may allow others (setting `webhook-networks`).',
    examples: ['https://example.com/changes'],
  }),
  tables: names(
    'The tables whose changes it gets, `schema.table` for those in other schemas; `all`: all of the feed.',
    127,
  ),
  ops: Type.Array(Type.Enum(CHANGE_OPERATIONS), {
    minItems: 1,
    uniqueItems: true,
    description: 'The kinds of changes that it gets.',
  }),
  columns: names('The columns that records have, besides those of keys; `all`: all.', 63),
} as const;

export const CreateWebhookBody = Type.Object(
  {
    url: FIELDS.url,
    tables: Type.Optional(FIELDS.tables),
    ops: Type.Optional(FIELDS.ops),
    columns: Type.Optional(FIELDS.columns),
    from: Type.Optional(
      Type.String({
        pattern: CURSOR_PATTERN,
        description: 'The cursor after which changes are sent. Default: changes from now on.',
      }),
    ),
  },
  { ...STRICT, description: 'What is missing is not narrowed: all tables, kinds and columns.' },
);
export type CreateWebhookBody = Static<typeof CreateWebhookBody>;

export const ChangeWebhookBody = Type.Object(
  {
    url: Type.Optional(FIELDS.url),
    tables: Type.Optional(FIELDS.tables),
    ops: Type.Optional(FIELDS.ops),
    columns: Type.Optional(FIELDS.columns),
    active: Type.Optional(
      Type.Boolean({ description: '`false` pauses it; `true` resumes it where it was, and tries again at once.' }),
    ),
  },
  { ...STRICT, minProperties: 1, description: 'What is missing stays as it is.' },
);
export type ChangeWebhookBody = Static<typeof ChangeWebhookBody>;

const Time = Type.Nullable(Type.String({ format: 'date-time' }));

export const Webhook = Type.Object({
  id: Type.String(),
  ...FIELDS,
  reads_as: Type.Enum(['writer', 'reader'], {
    description: 'Whose rights decide what it gets: those of the token that created or changed it last.',
  }),
  status: Type.Enum(['active', 'failing', 'paused'], {
    description: '`failing`: the last attempt was not confirmed, and is repeated. `paused`: nothing is sent.',
  }),
  reason: Type.Nullable(
    Type.String({ description: 'Why the service has paused it, and how to go on; null if a person has, or nobody.' }),
  ),
  cursor: Type.String({ description: 'The cursor after the last change that was confirmed.' }),
  attempts: Type.Integer({ description: 'Attempts of the delivery that is not confirmed yet.' }),
  failing_since: Time,
  next_attempt_at: Time,
  error: Type.Nullable(Type.String({ description: 'How the last attempt failed.' })),
  delivered_at: Type.Nullable(Type.String({ format: 'date-time', description: 'When a delivery was confirmed last.' })),
  previous_secret_until: Type.Nullable(
    Type.String({ format: 'date-time', description: 'Until then the previous secret also signs.' }),
  ),
  created_at: Type.String({ format: 'date-time' }),
});
export type Webhook = Static<typeof Webhook>;

export const WebhookResponse = Type.Object({ ...success, webhook: Webhook });
export type WebhookResponse = Static<typeof WebhookResponse>;

export const WebhookSecretResponse = Type.Object({
  ...success,
  webhook: Webhook,
  secret: Type.String({ description: 'Signs the deliveries. It is shown only once.' }),
});
export type WebhookSecretResponse = Static<typeof WebhookSecretResponse>;

export const WebhooksResponse = Type.Object({ ...success, webhooks: Type.Array(Webhook) });
export type WebhooksResponse = Static<typeof WebhooksResponse>;

export const DeleteWebhookResponse = Type.Object({ ...success, id: Type.String() });
export type DeleteWebhookResponse = Static<typeof DeleteWebhookResponse>;

export const RotateSecretBody = Type.Object(
  {
    previous_hours: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 720,
        description: `Hours for which the previous secret also signs; default ${WEBHOOK_LIMITS.rotationHours}. 0: it ends at once.`,
      }),
    ),
  },
  STRICT,
);
export type RotateSecretBody = Static<typeof RotateSecretBody>;

export const ReplayWebhookBody = Type.Object(
  { from: Type.String({ pattern: CURSOR_PATTERN, description: 'Changes after this cursor are sent again.' }) },
  STRICT,
);
export type ReplayWebhookBody = Static<typeof ReplayWebhookBody>;

const ATTEMPT = {
  status: Type.Nullable(Type.Integer({ description: 'The status of the answer; null: there was none.' })),
  error: Type.Nullable(Type.String({ description: 'Why it is not confirmed; null: it is.' })),
  duration_ms: Type.Integer(),
} as const;

export const WebhookTest = Type.Object({ delivered: Type.Boolean(), ...ATTEMPT });
export type WebhookTest = Static<typeof WebhookTest>;

export const WebhookTestResponse = Type.Object({ ...success, test: WebhookTest });
export type WebhookTestResponse = Static<typeof WebhookTestResponse>;

export const WebhookDelivery = Type.Object({
  at: Type.String({ format: 'date-time' }),
  message_id: Type.String({ description: 'Its header `webhook-id`, the cursor of its last change.' }),
  attempt: Type.Integer({ description: '1 for the first attempt of this delivery.' }),
  changes: Type.Integer(),
  ...ATTEMPT,
});
export type WebhookDelivery = Static<typeof WebhookDelivery>;

export const WebhookDeliveriesResponse = Type.Object({
  ...success,
  deliveries: Type.Array(WebhookDelivery, {
    description: `The last ${WEBHOOK_LIMITS.deliveries} attempts, the newest first.`,
  }),
});
export type WebhookDeliveriesResponse = Static<typeof WebhookDeliveriesResponse>;
