/** Tools that insert records, or do so in a dry run. */
import { STRICT, Type } from '../../contract/schema.js';
import { BatchResponse, BatchBody } from '../../contract/wire/batch.js';
import { checkTableInPath } from '../../engine/schema/definition.js';
import type { Project } from '../../engine/project.js';
import { insertRecords } from '../../engine/insert/insert.js';
import { rowsChanged } from '../../engine/insert/insert-request.js';
import type { JsonNode } from '../../codec/index.js';
import { projectOf } from '../api/call.js';
import type { Call } from '../api/route.js';
import { dryRunBody } from '../response/dry-run-body.js';
import { ResultSchema, toolResult } from './tool-results.js';
import { DRY_RUN, tool } from './tool.js';
import { TableName } from './schema-tools.js';

const input = Type.Object({ table: TableName, records: BatchBody }, STRICT);

const ALL_OR_NONE = '1 to 250 records, all or none. A missing key takes the default of its column.';

export const INSERT = tool({
  name: 'insert',
  title: 'Insert records',
  description: `Insert ${ALL_OR_NONE} An error names every wrong value, and nothing is stored then.`,
  scope: 'data:write',
  audit: 'insert',
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false },
  input,
  output: ResultSchema(BatchResponse),
  async run(call, { table }, exact) {
    const response = await insert(call, projectOf(call), table, exact('records'));
    call.request.context.rows = rowsChanged(response);
    return toolResult(JSON.stringify(response));
  },
});

export const DRY_RUN_INSERT = tool({
  name: 'dry_run_insert',
  title: 'Dry run of an insert',
  description: `Insert ${ALL_OR_NONE} Then roll it back: returns the errors, or what would be stored. Nothing is stored.`,
  scope: 'data:write',
  audit: 'dry_run',
  annotations: DRY_RUN,
  input,
  output: ResultSchema(BatchResponse),
  async run(call, { table }, exact) {
    const project = projectOf(call).inDryRun();
    const response = await insert(call, project, table, exact('records'));
    return toolResult(JSON.stringify(dryRunBody(response, project)));
  },
});

/** @throws EngineError as `insertRecords` */
async function insert(
  { signal }: Call,
  project: Project,
  tableName: string,
  records: JsonNode | undefined,
): Promise<BatchResponse> {
  checkTableInPath(tableName);
  const body = Buffer.from(records?.kind === 'array' ? records.text : '[]');
  const options = { returnIds: false, idempotency: null, upsert: null, quarantine: false, signal };
  return (await insertRecords({ project, tableName, body, ...options })).response;
}
