/** Reads the events of a request: what each one is, and what is wrong with it. */
import { randomUUID } from 'node:crypto';
import {
  type BatchColumn,
  type JsonMember,
  type JsonNode,
  jsonText,
  memberOf,
  readCell,
  readEventsBody,
  type Steps,
} from '../../codec/index.js';
import type { ColumnType } from '../../contract/column-types.js';
import { EngineError, type ErrorDetail } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { quoted } from '../../contract/message-text.js';

/** The calls of an SDK that bring an event. */
export const CALL_TYPES = ['track', 'identify', 'page', 'screen', 'group', 'alias'] as const;
export type CallType = (typeof CALL_TYPES)[number];

const isCallType = (name: string): name is CallType => (CALL_TYPES as readonly string[]).includes(name);

/** A time, as Postgres writes it and in milliseconds since 1970. */
export interface Time {
  readonly text: string;
  readonly ms: number;
}

export interface TrackedEvent {
  readonly type: CallType;
  /** Its messageId. */
  readonly id: string;
  readonly sentAt: Time | null;
  /** When it happened, by the clock of its sender. */
  readonly originalTimestamp: Time | null;
  /** When it happened by a right clock, if the sender says so besides: RudderStack's SDKs do, for events of the past. */
  readonly timestamp: Time | null;
  readonly userId: string | null;
  readonly anonymousId: string | null;
  /** Of a `track`; of a page or screen it may be missing. */
  readonly name: string | null;
  readonly category: string | null;
  readonly groupId: string | null;
  readonly previousId: string | null;
  /** That of the batch, and over it its own. */
  readonly context: readonly JsonMember[];
  /** Its properties or traits. */
  readonly properties: readonly JsonMember[];
  /** As sent. */
  readonly text: string;
}

/** An event that cannot be stored. */
export interface WrongEvent {
  readonly type: CallType;
  readonly text: string;
  readonly errors: readonly ErrorDetail[];
}

export interface ReadEvents {
  readonly events: readonly TrackedEvent[];
  readonly wrong: readonly WrongEvent[];
}

/** Segment's own limit, so that no index entry is too large. */
const ID_CHARACTERS = 255;

/**
 * @param body decoded
 * @param type of the only event; null: the body is a batch
 * @throws EngineError invalid_json, invalid_request: nothing in the body can be read
 */
export function* readEvents(body: Buffer, type: CallType | null): Steps<ReadEvents> {
  const root = readEventsBody(body, LIMITS.valuesOfEvents);
  yield;
  if (root.kind !== 'object') throw new EngineError('invalid_request', 'The body must be a JSON object');
  const batch = memberOf(root, 'batch');
  if (type === null && batch?.kind !== 'array') throw new EngineError('invalid_request', 'body.batch must be an array');
  const items = type === null && batch?.kind === 'array' ? batch.items : [root];
  if (items.length > LIMITS.eventsPerRequest) {
    const message = `body.batch has ${items.length} events, and may have ${LIMITS.eventsPerRequest}`;
    throw new EngineError('payload_too_large', message);
  }
  const context = type === null ? memberOf(root, 'context') : undefined;
  const shared = context?.kind === 'object' ? context : null;
  // Each event gets it.
  if (shared !== null && shared.text.length * items.length > LIMITS.bodyBytes) {
    throw new EngineError('payload_too_large', 'body.context is too large for so many events');
  }
  const ofBatch: OfBatch = {
    context: shared?.members ?? [],
    sentAt: type === null ? timeIn(memberOf(root, 'sentAt')) : null,
  };
  const events: TrackedEvent[] = [];
  const wrong: WrongEvent[] = [];
  for (const item of items) {
    const read = readEvent(item, type, ofBatch);
    if ('errors' in read) wrong.push(read);
    else events.push(read);
    yield;
  }
  return { events, wrong };
}

/** What holds for each event that has none of its own. */
interface OfBatch {
  readonly context: readonly JsonMember[];
  readonly sentAt: Time | null;
}

function readEvent(item: JsonNode, pathType: CallType | null, batch: OfBatch): TrackedEvent | WrongEvent {
  const reader = new EventReader(item);
  const named = pathType ?? reader.text('type') ?? '';
  const type = isCallType(named) ? named : 'track';
  if (item.kind !== 'object') reader.complain(null, 'The event is not an object');
  else if (!isCallType(named)) reader.complain('type', `type: ${quoted(named)} is none of ${CALL_TYPES.join(', ')}`);
  const id = reader.text('messageId') ?? randomUUID();
  if (id.length > ID_CHARACTERS) reader.complain('messageId', `messageId is longer than ${ID_CHARACTERS} characters`);
  const userId = reader.text('userId');
  const anonymousId = reader.text('anonymousId');
  const name = reader.text(type === 'track' ? 'event' : 'name');
  const groupId = reader.text('groupId');
  const previousId = reader.text('previousId');
  if (item.kind === 'object') {
    if (userId === null && anonymousId === null) reader.complain('userId', 'userId or anonymousId is needed');
    if (type === 'track' && name === null) reader.complain('event', 'event, the name of what happened, is needed');
    if (type === 'group' && groupId === null) reader.complain('groupId', 'groupId is needed');
    if (type === 'alias' && previousId === null) reader.complain('previousId', 'previousId is needed');
  }
  const context = reader.members('context');
  const own = batch.context.length === 0 ? null : new Set(context.map(([key]) => key));
  const inherited = own === null ? [] : batch.context.filter(([key]) => !own.has(key));
  const [original, stated] = [reader.time('originalTimestamp'), reader.time('timestamp')];
  const event: TrackedEvent = {
    type,
    id,
    userId,
    anonymousId,
    name,
    groupId,
    previousId,
    sentAt: reader.time('sentAt') ?? batch.sentAt,
    originalTimestamp: original ?? stated,
    timestamp: original === null ? null : stated,
    category: reader.text('category'),
    context: inherited.length === 0 ? context : [...inherited, ...context],
    properties: reader.members(type === 'identify' || type === 'group' ? 'traits' : 'properties'),
    text: reader.json,
  };
  const { errors } = reader;
  return errors.length === 0 ? event : { type, text: reader.json, errors };
}

/** Reads the members of an event, and collects what is wrong with them. */
class EventReader {
  readonly errors: ErrorDetail[] = [];
  private readonly byName = new Map<string, JsonNode>();

  constructor(private readonly item: JsonNode) {
    for (const [key, node] of item.kind === 'object' ? item.members : [])
      if (node.kind !== 'null') this.byName.set(key, node);
  }

  get json(): string {
    return jsonText(this.item);
  }

  complain(column: string | null, message: string): void {
    this.errors.push({ error: 'invalid_value', ...(column !== null && { column }), message });
  }

  /** A text, or a number as its text; null: none, or an empty one. */
  text(name: string): string | null {
    const node = this.byName.get(name);
    if (node === undefined) return null;
    const cell = readCell(TEXT, node);
    if (typeof cell === 'string') return cell === '' ? null : cell;
    this.complain(name, `${name}: ${cell?.reason ?? 'null'}`);
    return null;
  }

  time(name: string): Time | null {
    const node = this.byName.get(name);
    if (node === undefined) return null;
    const time = timeIn(node);
    if (time === null) this.complain(name, `${name} is not a time as RFC 3339 writes it, such as 2026-01-31T09:30:00Z`);
    return time;
  }

  members(name: string): readonly JsonMember[] {
    const node = this.byName.get(name);
    if (node === undefined) return [];
    if (node.kind === 'object') return node.members;
    this.complain(name, `${name} is not an object`);
    return [];
  }
}

/** A column of one of the six types, for values that have none. */
export const plainColumn = (type: ColumnType): BatchColumn => ({
  ...{ name: '', type, displayType: type, isJson: false, isArray: false },
  ...{ hasDefault: false, isGeneratedAlways: false, isId: false },
});

const TEXT = plainColumn('TEXT');
const TIME = plainColumn('TIMESTAMP');

/** null: it is none that both Postgres and JavaScript have. */
function timeIn(node: JsonNode | undefined): Time | null {
  const cell = node === undefined ? null : readCell(TIME, node);
  if (typeof cell !== 'string') return null;
  // Without an offset, the cell has that of UTC.
  const ms = Date.parse(cell.replace(' ', 'T'));
  return Number.isNaN(ms) ? null : { text: cell, ms };
}
