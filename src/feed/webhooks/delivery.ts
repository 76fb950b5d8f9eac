/** What a delivery contains: the next changes for an endpoint, the same at each attempt. */
import { WEBHOOK_LIMITS } from '../../contract/wire/webhooks.js';
import type { LiveWebhook } from '../../tenancy/control/webhook-rows.js';
import type { EncodedChange } from '../change-json.js';
import { cursorOf, isBefore } from '../cursor.js';
import type { Feed, ReadChanges } from '../feed.js';

export interface Delivery {
  /** The cursor of its last change. */
  readonly id: string;
  readonly changes: number;
  readonly body: Buffer;
  /** Whether there is probably more. */
  readonly hasMore: boolean;
}

/** One change may exceed it. */
const BODY_BYTES = 512 * 1024;

/** A change that exceeds this is not sent: the memory of all deliveries is bounded. */
const CHANGE_BYTES = 8 * 1024 * 1024;

/** What the webhook reads of its feed. */
export function reading(webhook: LiveWebhook): Pick<ReadChanges, 'after' | 'role' | 'filter'> {
  const { cursor, tables, ops, columns, readsAs, project } = webhook;
  return {
    after: cursorOf(cursor),
    role: project.placement[readsAs],
    filter: {
      tables: tables && new Set(tables),
      operations: ops && new Set(ops),
      columns: columns && new Set(columns),
    },
  };
}

/**
 * The next delivery; null: there is nothing to send.
 * @throws EngineError as `Feed.read`; ChangeTooLarge
 */
export async function nextDelivery(
  feed: Feed,
  webhook: LiveWebhook,
  options: Pick<ReadChanges, 'signal' | 'turn'>,
): Promise<Delivery | null> {
  const limit = WEBHOOK_LIMITS.changes;
  const { changes, bytes } = await feed.read({ ...reading(webhook), ...options, limit, waitMs: 0 });
  const taken = takeFirst(changes, webhook.pending);
  const [first, last] = [taken[0], taken.at(-1)];
  if (first === undefined || last === undefined) return null;
  const { id, project } = webhook;
  const head = `{"type":"changes","project":${JSON.stringify(project.name)},"webhook":"${id}","changes":[`;
  return {
    id: last.cursor,
    changes: taken.length,
    body: Buffer.concat([
      Buffer.from(head),
      bytes.subarray(first.start, last.end),
      Buffer.from(`],"cursor":"${last.cursor}"}`),
    ]),
    hasMore: taken.length < changes.length || changes.length === limit,
  };
}

/** @param pending the cursor of the last change of a delivery that was tried; null: there is none */
function takeFirst(changes: readonly EncodedChange[], pending: string | null): readonly EncodedChange[] {
  const end = pending === null ? null : cursorOf(pending);
  const tried = end === null ? [] : changes.filter(({ place }) => !isBefore(end, place));
  // They may be gone, with a right to read them.
  const candidates = tried.length > 0 ? tried : changes;
  let bytes = 0;
  const count = candidates.findIndex(({ start, end }, i) => {
    bytes += end - start;
    if (i === 0 && bytes > CHANGE_BYTES) throw new ChangeTooLarge(bytes, candidates[0] as EncodedChange);
    return i > 0 && bytes > BODY_BYTES;
  });
  return count === -1 ? candidates : candidates.slice(0, count);
}

export class ChangeTooLarge extends Error {
  constructor(bytes: number, { table, cursor }: EncodedChange) {
    super(
      `The next change, of the table ${JSON.stringify(table)}, has ${bytes} bytes, and at most ${CHANGE_BYTES} are sent. ` +
        `Leave out columns, or go on after it with a replay from ${cursor}.`,
    );
  }
}
