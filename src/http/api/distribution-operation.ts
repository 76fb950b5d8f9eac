/** The call of the API that distributes a table over a Citus cluster. */
import * as wire from '../../contract/wire/distribution.js';
import { distributeTable } from '../../engine/schema/distribution.js';
import { projectOf, TableInPath, tableInPath } from './call.js';
import { type Operation, succeeds } from './route.js';
import { changeOptions, GROWING_ERRORS } from './schema-operations.js';

export const DISTRIBUTE_TABLE: Operation = {
  operationId: 'distributeTable',
  hasDryRun: true,
  summary: 'Distribute a table over the workers of a Citus cluster, or make it local again',
  description:
    'Only for projects on a cluster. The rows are copied in one transaction, during which the table cannot be used. A primary key that is only `id` also gets the distribution column.',
  key: 'taken',
  tag: 'schema',
  audit: 'distribute_table',
  work: 'typed',
  params: TableInPath,
  body: wire.DistributeBody,
  example: { kind: 'hash', column: 'customer_id' },
  success: succeeds(200, wire.DistributionResponse, 'table distributed', {
    table: 'orders',
    distribution: { kind: 'hash', column: 'customer_id' },
    primary_key: ['id', 'customer_id'],
  }),
  errors: ['table_not_found', 'unknown_column', ...GROWING_ERRORS],
  async handle(call) {
    const table = tableInPath(call);
    const body = call.request.body as wire.DistributeBody;
    const { response, replayed } = await distributeTable(projectOf(call), table, body, changeOptions(call));
    const { kind, column, primaryKey } = response;
    const message = kind === 'local' ? 'table is local' : 'table distributed';
    const distribution = { kind, column };
    return { body: { success: true, message, table, distribution, primary_key: primaryKey }, replayed };
  },
};
