/** The body of a request of Neon's driver: one query, or a batch of them. */
import { type JsonNode, readDataBody } from '../../codec/index.js';
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { quoted } from '../../contract/message-text.js';
import type { Query } from '../../engine/sql/run-queries.js';

interface NeonBody {
  readonly queries: readonly Query[];
  readonly isBatch: boolean;
}

/** @throws EngineError invalid_json, invalid_request */
export function readNeonBody(bytes: Uint8Array): NeonBody {
  const body = readDataBody(bytes);
  const { queries } = membersOf(body, 'body', ['query', 'params', 'queries']);
  if (queries === undefined) return { queries: [readQuery(body, 'body')], isBatch: false };
  membersOf(body, 'body', ['queries']);
  if (queries.kind !== 'array') throw wrong('body.queries must be an array');
  const { length } = queries.items;
  if (length > LIMITS.queriesPerBatch) {
    throw wrong(`body.queries has ${length} items; a batch has at most ${LIMITS.queriesPerBatch}`);
  }
  const read = queries.items.map((item, i) => {
    const place = `body.queries.${i}`;
    // Parsed again by itself, so that its parameters may be nested as deeply as in a request of one query.
    return readQuery(item.kind === 'object' ? readDataBody(Buffer.from(item.text)) : item, place);
  });
  return { queries: read, isBatch: true };
}

function readQuery(node: JsonNode, place: string): Query {
  const { query, params } = membersOf(node, place, ['query', 'params']);
  if (query?.kind !== 'string') throw wrong(`${place}.query must be a string`);
  if (params !== undefined && params.kind !== 'array') throw wrong(`${place}.params must be an array`);
  return { text: query.value, field: `${place}.query`, params: params?.items ?? [] };
}

/** @throws EngineError invalid_request for anything but an object whose keys are all in the list */
function membersOf(node: JsonNode, place: string, keys: readonly string[]): Partial<Record<string, JsonNode>> {
  if (node.kind !== 'object') throw wrong(`${place} must be an object`);
  const unknown = node.members.find(([key]) => !keys.includes(key));
  if (unknown?.[0] === 'sql') throw wrong(`${place}.sql is ${place}.query here; ${FREE_SQL} takes the field sql`);
  if (unknown !== undefined) throw wrong(`${place} has an unknown field ${quoted(unknown[0])}`);
  return Object.fromEntries(node.members);
}

const FREE_SQL = 'POST /api/cdp/sql';

const wrong = (message: string) => new EngineError('invalid_request', message);
