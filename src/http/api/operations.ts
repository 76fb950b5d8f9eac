/** All operations of the API, in the order of the OpenAPI document. Each file has those of one subject. */
import { OTHER_AUDIT_OPERATIONS } from '../../contract/audit.js';
import { MCP } from '../mcp/mcp-route.js';
import { readAudit } from './audit.js';
import { COLUMNS } from './columns.js';
import { CHANGES } from './changes.js';
import { EVENTS } from './events.js';
import { FEED } from './feed.js';
import { INDEXES } from './indexes.js';
import { MOVES } from './moves.js';
import { RUN_QUERIES } from './neon.js';
import type { Operation } from './operation.js';
import { PROJECTS } from './projects.js';
import { QUARANTINE } from './quarantine.js';
import { QUERIES } from './queries.js';
import { RECEIPTS } from './receipts.js';
import { RECORDS } from './records.js';
import { REQUESTS } from './requests.js';
import { SCHEDULES } from './schedules.js';
import { SEGMENTS } from './segments.js';
import { SERVERS } from './servers.js';
import { ROLES } from './roles.js';
import { RUN_SQL } from './sql.js';
import { SUBJECTS } from './subjects.js';
import { TABLES } from './tables.js';
import { TOKENS } from './tokens.js';
import { READ_USAGE } from './usage.js';
import { WEBHOOKS } from './webhooks.js';

const OF_PROJECTS = [
  ...TABLES,
  ...COLUMNS,
  ...INDEXES,
  ...ROLES,
  ...RECORDS,
  ...QUARANTINE,
  ...RECEIPTS,
  ...EVENTS,
  ...FEED,
  ...CHANGES,
  ...WEBHOOKS,
  RUN_SQL,
  RUN_QUERIES,
  ...QUERIES,
  ...SCHEDULES,
  ...SEGMENTS,
  ...SUBJECTS,
];
const OF_OPERATORS = [...PROJECTS, ...MOVES, ...SERVERS, ...REQUESTS, READ_USAGE];

/** The words of the audit log and whether the setting `changes` records them. */
export const auditOperations = (operations: readonly Operation[]): ReadonlyMap<string, boolean> =>
  new Map([
    ...[...operations, MCP].map(({ audit }) => [audit.operation, audit.isChange] as const),
    ...OTHER_AUDIT_OPERATIONS,
  ]);

/** All operations. @param added those of a test */
export function operationsWith(...added: readonly Operation[]): readonly Operation[] {
  const others = [...OF_PROJECTS, ...TOKENS, ...OF_OPERATORS, ...added];
  // This one filters entries by the words of all.
  return [...others, readAudit(auditOperations(others))];
}

export const OPERATIONS = operationsWith();
