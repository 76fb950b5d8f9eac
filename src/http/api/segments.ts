/** Segments: the keys that a query yields, kept as members in tables of the project (docs/segments.md). */
import { LIMITS } from '../../contract/limits.js';
import { SqlHeaders } from '../../contract/wire/replicas.js';
import { SavedNameInPath } from '../../contract/wire/schedules.js';
import * as wire from '../../contract/wire/segments.js';
import { SqlResponse } from '../../contract/wire/sql.js';
import type { Project } from '../../db/project.js';
import { membersSql } from '../../engine/segments/segment-sql.js';
import { segmentDeclarationOf, shownSegment } from '../../engine/segments/segments.js';
import { auditOriginOf } from '../observability/audit-request.js';
import type { Call } from '../route.js';
import { projectOfOwner } from './call-inputs.js';
import { type Operation, SQL_ERRORS, succeeds } from './operation.js';
import { answerSql } from './sql.js';
import { COMMON, nameInPath, timedOperations } from './timed.js';

/** @throws EngineError insufficient_scope */
const ownProject = (call: Call): Project => projectOfOwner(call, ', and segments are no matter of roles');

const EXAMPLE: wire.Segment = {
  name: 'big-spenders',
  sql: 'SELECT customer AS key FROM orders GROUP BY customer HAVING sum(total) > 1000',
  cron: null,
  every: '1h',
  time_zone: 'UTC',
  timeout_ms: 300_000,
  missed: 'run_once',
  max_change: 20,
  paused: false,
  next_run_at: '2026-02-01T02:00:00.000Z',
  running: false,
  missed_count: 0,
  created_at: '2026-01-30T09:30:00.000Z',
  created_by: 'token ada',
  updated_at: '2026-01-30T09:30:00.000Z',
  updated_by: 'token ada',
  last_run: null,
};

const SAVE_SEGMENT: Operation = {
  ...COMMON,
  method: 'PUT',
  url: '/api/cdp/segments/:name',
  operationId: 'saveSegment',
  summary: 'Make or replace a segment',
  description:
    'A schedule whose result is kept in the table `segment_members`, and what enters and leaves in `segment_changes`, in one transaction.',
  audit: { operation: 'save_segment', isChange: true },
  writesEntry: true,
  slot: null,
  body: wire.SegmentBody,
  example: { sql: EXAMPLE.sql, every: EXAMPLE.every, max_change: EXAMPLE.max_change },
  success: succeeds(200, wire.SegmentResponse, 'segment saved', { segment: EXAMPLE }),
  errors: ['invalid_name', 'not_found', 'sql_error', 'statement_not_allowed', 'outcome_unknown'],
  async handle(call) {
    const { request, engine, signal } = call;
    const body = request.body as wire.SegmentBody;
    const by = auditOriginOf(request);
    const declaration = segmentDeclarationOf(body);
    const saved = await engine.segments.save(ownProject(call), nameInPath(call), declaration, by, signal);
    return { body: { success: true, message: 'segment saved', segment: shownSegment(saved) } };
  },
};

const { list, read, run, pause, resume } = timedOperations({
  word: 'segment',
  responses: {
    one: wire.SegmentResponse,
    all: wire.SegmentsResponse,
    detailed: wire.DetailedSegmentResponse,
  },
  example: EXAMPLE,
  run: {
    summary: 'Find the members of a segment now',
    description: 'As a run of a schedule. `rows` of the run is the number of changes.',
    query: wire.RunSegmentQuery,
  },
  projectOf: ownProject,
  of: ({ segments }) => segments,
  shown: shownSegment,
});

const READ_MEMBERS: Operation = {
  method: 'GET',
  url: '/api/cdp/segments/:name/members',
  access: ['sql:read', 'sql:write'],
  operationId: 'readMembers',
  summary: 'List the members of a segment',
  description:
    `By key, as the reader; at most ${LIMITS.maxRowsDefault} in one JSON object. \`Accept: text/csv\` or \`application/x-ndjson\` streams all. ` +
    'Before its first run, a segment has none.',
  tag: 'sql',
  audit: { operation: 'read_members', isChange: false },
  slot: 'sql',
  headers: SqlHeaders,
  params: SavedNameInPath,
  success: {
    status: 200,
    response: SqlResponse,
    example: {
      success: true,
      type: 'SELECT',
      rows: [{ key: 'ada', entered_at: '2026-01-31T02:00:00Z' }],
      row_count: 1,
      columns: [
        { name: 'key', type: 'TEXT' },
        { name: 'entered_at', type: 'TIMESTAMP' },
      ],
      truncated: false,
    },
  },
  errors: ['not_found', ...SQL_ERRORS],
  async handle(call) {
    const project = ownProject(call);
    const { name, lastRun } = await call.engine.segments.find(project, nameInPath(call));
    const text = membersSql(project.schema, lastRun !== null);
    return answerSql(call, { text, params: [{ kind: 'string', value: name }], readOnly: true });
  },
};

const DELETE_SEGMENT: Operation = {
  ...COMMON,
  method: 'DELETE',
  url: '/api/cdp/segments/:name',
  operationId: 'deleteSegment',
  summary: 'Delete a segment with its members and runs',
  description: 'Its rows in `segment_changes` stay.',
  audit: { operation: 'delete_segment', isChange: true },
  writesEntry: true,
  slot: 'sql',
  success: succeeds(200, wire.DeleteSegmentResponse, 'segment deleted', { segment: EXAMPLE.name }),
  errors: ['not_found', ...SQL_ERRORS],
  async handle(call) {
    const { engine, request, signal } = call;
    const name = nameInPath(call);
    const options = { by: auditOriginOf(request), signal, timeoutMs: LIMITS.timeoutMsMax };
    await engine.segments.drop(engine.services, ownProject(call), name, options);
    return { body: { success: true, message: 'segment deleted', segment: name } };
  },
};

export const SEGMENTS: readonly Operation[] = [
  SAVE_SEGMENT,
  list,
  read,
  run,
  pause,
  resume,
  READ_MEMBERS,
  DELETE_SEGMENT,
];
