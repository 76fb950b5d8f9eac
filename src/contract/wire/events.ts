/** Tracked events on the wire: the settings of a project, and the responses of the tracking API (docs/events.md). */
import { success } from './fields.js';
import { STRICT, type Static, Type } from '../schema.js';

const SETTINGS = {
  mode: Type.Union([Type.Literal('columns'), Type.Literal('json')], {
    description:
      '`columns`: each property and trait becomes a column, and each event name a table. `json`: they stay together, as JSONB.',
  }),
  schema: Type.Union([Type.Literal('closed'), Type.Literal('open')], {
    description: 'Whether events of keys that name origins, which anybody may have, also make tables and columns.',
  }),
  ip: Type.Boolean({ description: 'Whether `context_ip` is the address of the sender if an event has none.' }),
} as const;

export const EventSettings = Type.Object(SETTINGS);
export type EventSettings = Static<typeof EventSettings>;

export const EventSettingsBody = Type.Object(
  {
    mode: Type.Optional(SETTINGS.mode),
    schema: Type.Optional(SETTINGS.schema),
    ip: Type.Optional(SETTINGS.ip),
  },
  { ...STRICT, description: 'What is missing has its default: `columns`, `closed`, `true`.' },
);
export type EventSettingsBody = Static<typeof EventSettingsBody>;

export const EventsResponse = Type.Object({
  ...success,
  /** null: the project takes no events. */
  events: Type.Nullable(EventSettings),
});
export type EventsResponse = Static<typeof EventsResponse>;

/** What SDKs send; nothing in it is refused for being unknown. */
export const TrackBody = Type.Object(
  {},
  {
    additionalProperties: true,
    description:
      'An event, or `batch` with events: `messageId`, `userId` or `anonymousId`, `timestamp`, `context`, and `properties` or `traits`.',
  },
);

export const SdkSettingsResponse = Type.Object({
  integrations: Type.Object({}, { additionalProperties: true }),
});

export const TrackResponse = Type.Object({
  success: Type.Literal(true),
  accepted: Type.Integer({ description: 'Events that are stored now, or were before.' }),
  quarantined: Type.Integer({ description: 'Events that are wrong; the quarantine keeps them with their errors.' }),
  duplicates: Type.Optional(
    Type.Integer({ description: 'Accepted events that were stored before. Only for tokens that may read.' }),
  ),
});
export type TrackResponse = Static<typeof TrackResponse>;
