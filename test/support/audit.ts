/** Reads the audit log directly from its table, independently of the API. */
import { onServer, type TestService } from './service.js';

export interface AuditRow {
  at: Date;
  request_id: string | null;
  project_id: string | null;
  project: string | null;
  actor: string;
  actor_id: string | null;
  actor_name: string | null;
  address: string | null;
  operation: string;
  object: string | null;
  statement_sha256: string | null;
  statement: string | null;
  rows: string | null;
  outcome: string;
  status: number | null;
  duration_ms: number | null;
  count: string;
}

/** A statement in the control database, as the server's superuser. */
export const inControl = <Row extends object>(service: TestService, text: string, values: unknown[] = []) =>
  onServer(service.server, async (client) => (await client.query<Row>(text, values)).rows, service.database);

/** All entries that were made so far, oldest first. */
export async function auditRows(service: TestService): Promise<AuditRow[]> {
  await service.engine.audit.flush();
  return inControl<AuditRow>(service, 'SELECT * FROM cdp.audit ORDER BY at, id');
}

/** Entries of one request. A request is over a moment after its response has arrived: waits for the first. */
export async function entriesOf(service: TestService, requestId: string): Promise<AuditRow[]> {
  for (const until = Date.now() + 10_000; ; await new Promise((resolve) => setTimeout(resolve, 10))) {
    const found = (await auditRows(service)).filter((row) => row.request_id === requestId);
    if (found.length > 0 || Date.now() > until) return found;
  }
}
