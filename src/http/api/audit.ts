/** The audit log over HTTP, for an admin token. */
import { counted } from '../../contract/message-text.js';
import * as wire from '../../contract/wire/audit.js';
import type { AuditRow } from '../../tenancy/control/audit-rows.js';
import { timeOf } from './call-inputs.js';
import { ADMIN, type Operation, succeeds } from './operation.js';

const AUDIT_EXAMPLE: wire.AuditEntry = {
  id: '1769851800000-1',
  time: '2026-01-31T09:30:00.000Z',
  request_id: '0b0f8a9c-7d0e-4a5f-9d6e-2f6f0c1c2d3e',
  project: 'shop',
  project_id: '0b0f8a9c-7d0e-4a5f-9d6e-2f6f0c1c2d3e',
  actor: 'token',
  actor_id: '5f3f2b8e-52a4-4c83-9a1a-6f0a6c2f5d10',
  actor_name: 'importer',
  address: '192.0.2.7',
  operation: 'insert',
  object: 'customers',
  statement_sha256: null,
  statement: null,
  rows: 250,
  outcome: 'ok',
  status: 201,
  duration_ms: 4.13,
  count: 1,
};

const AUDIT = { operation: 'audit.read', isChange: false };

/** @param operations all others, and whether the setting `changes` records them */
export const readAudit = (operations: ReadonlyMap<string, boolean>): Operation => ({
  ...ADMIN,
  method: 'GET',
  url: '/api/cdp/admin/audit',
  operationId: 'readAudit',
  summary: 'Read the audit log, newest first',
  description: 'Returns at most `limit` entries. If `next` is not null, send it as `before` to get the next page.',
  audit: AUDIT,
  query: wire.auditQuery([...operations.keys(), AUDIT.operation]),
  success: succeeds(200, wire.AuditResponse, '1 entry', { entries: [AUDIT_EXAMPLE], next: null }),
  errors: [],
  async handle({ engine, request }) {
    const { limit = '100', since, until, before, changes, ...filter } = request.query as wire.AuditQuery;
    const omitted = [...operations].flatMap(([operation, isChange]) => (isChange ? [] : [operation]));
    const entries = await engine.audit.read({
      ...filter,
      ...(changes === 'true' ? { onlyFailed: [...omitted, AUDIT.operation] } : {}),
      ...(since === undefined ? {} : { since: timeOf('since', since) }),
      ...(until === undefined ? {} : { until: timeOf('until', until) }),
      ...(before === undefined ? {} : { before: auditPlace(before) }),
      limit: Number(limit),
    });
    const message = counted(entries.length, 'entry', 'entries');
    const last = entries.length < Number(limit) ? undefined : entries.at(-1);
    const next = last === undefined ? null : shownEntry(last).id;
    return { body: { success: true, message, entries: entries.map(shownEntry), next } };
  },
});

function auditPlace(text: string): { at: number; id: number } {
  const [at = NaN, id = NaN] = text.split('-').map(Number);
  return { at, id };
}

/** The `id` is the entry's place in the log, for `before`. */
const shownEntry = ({ at, id, ...entry }: AuditRow): wire.AuditEntry => ({
  id: `${at.getTime()}-${id}`,
  time: at.toISOString(),
  ...entry,
});
