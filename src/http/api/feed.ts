/** The feed of a project's changes: whether it has one, and what it keeps (docs/feed.md). */
import { counted } from '../../contract/message-text.js';
import * as wire from '../../contract/wire/changes.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import { auditOriginOf } from '../observability/audit-request.js';
import type { Call } from '../route.js';
import { projectOfOwner } from './call-inputs.js';
import { type Operation, succeeds } from './operation.js';

const EXAMPLE: wire.FeedState = {
  ...wire.FEED_DEFAULTS,
  start: '9f3a01c7.1a2b3c0.0',
  end: '9f3a01c7.1a2b3c4.2',
  bytes: 4_096,
  status: 'reading',
  reason: null,
  behind_bytes: 56,
  table_list: [{ name: 'customers', changes: 'all', old: false }],
};

const OWNER = ': which changes are kept is not a matter of roles';

const stateOf = async ({ engine }: Call, row: ProjectRow): Promise<wire.FeedState> =>
  (await engine.feeds.of(row)).state();

const SET_FEED: Operation = {
  method: 'PUT',
  url: '/api/cdp/feed',
  access: ['schema:write'],
  operationId: 'setFeed',
  summary: 'Keep the changes of tables, so that others can read them',
  description: "For the first time, the project's server restarts; requests that run then fail, and others wait.",
  tag: 'data',
  audit: { operation: 'set_feed', isChange: true },
  writesEntry: true,
  slot: 'typed',
  body: wire.FeedBody,
  example: { tables: 'all' },
  success: succeeds(200, wire.FeedResponse, 'the feed is on', { feed: EXAMPLE }),
  errors: ['not_supported', 'not_found', 'request_in_flight', 'outcome_unknown', 'table_busy'],
  async handle(call) {
    const { engine, request } = call;
    const { row } = projectOfOwner(call, OWNER);
    const settings = { ...wire.FEED_DEFAULTS, ...(request.body as wire.FeedBody) };
    const entry = engine.audit.entryOfChange(auditOriginOf(request), { operation: 'set_feed' });
    await engine.projects.upgradeIfNeeded(row);
    const current = await engine.feeds.turnOn(await engine.projects.get(row.name), settings, entry);
    return { body: { success: true, message: 'the feed is on', feed: await stateOf(call, current) } };
  },
};

const READ_FEED: Operation = {
  method: 'GET',
  url: '/api/cdp/feed',
  access: ['schema:read'],
  operationId: 'readFeed',
  summary: "Show the project's feed of changes",
  tag: 'data',
  audit: { operation: 'read_feed', isChange: false, isPolled: true },
  slot: null,
  success: succeeds(200, wire.FeedResponse, 'the feed is on', { feed: EXAMPLE }),
  errors: ['not_found'],
  async handle(call) {
    const row = await call.engine.projects.get(projectOfOwner(call, OWNER).row.name);
    if (row.feed === null) return { body: { success: true, message: 'the feed is off', feed: null } };
    return { body: { success: true, message: 'the feed is on', feed: await stateOf(call, row) } };
  },
};

const DROP_FEED: Operation = {
  method: 'DELETE',
  url: '/api/cdp/feed',
  access: ['schema:write'],
  operationId: 'dropFeed',
  summary: 'Keep no more changes, and delete those that are kept',
  tag: 'data',
  audit: { operation: 'drop_feed', isChange: true },
  writesEntry: true,
  slot: 'typed',
  success: succeeds(200, wire.FeedResponse, 'the feed is off', { feed: null }),
  errors: ['request_in_flight', 'outcome_unknown', 'table_busy', 'not_found'],
  async handle(call) {
    const { engine, request } = call;
    const { row } = projectOfOwner(call, OWNER);
    const entry = engine.audit.entryOfChange(auditOriginOf(request), { operation: 'drop_feed' });
    const active = (await engine.webhooks.list(row)).filter(({ isPaused }) => !isPaused).length;
    await engine.feeds.turnOff(await engine.projects.get(row.name), entry);
    const paused = `: ${counted(active, 'webhook')} will be paused, and can only be replayed from a cursor of a new feed`;
    return { body: { success: true, message: `the feed is off${active === 0 ? '' : paused}`, feed: null } };
  },
};

export const FEED: readonly Operation[] = [SET_FEED, READ_FEED, DROP_FEED];
