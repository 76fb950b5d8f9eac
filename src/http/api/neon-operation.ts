/** Free SQL for the driver `@neondatabase/serverless` (docs/decisions/0040-neon.md). */
import { LIMITS } from '../../contract/limits.js';
import * as wire from '../../contract/wire/neon.js';
import { runQueries } from '../../engine/sql/run-queries.js';
import { decodeBody } from '../body.js';
import { readNeonBody } from '../neon/body.js';
import { neonToken, runsAsNeonReader } from '../neon/connection-string.js';
import { booleanHeader, modesOf } from '../neon/header-options.js';
import { neonFailure, neonResponse } from '../neon/response.js';
import { projectOf } from './call.js';
import type { Operation } from './route.js';
import { SQL_ERRORS } from './sql-operation.js';

export const RUN_QUERIES: Operation = {
  operationId: 'runQueries',
  summary: "Run SQL for Neon's driver",
  description:
    'For `@neondatabase/serverless` and the libraries on top of it. One request is one transaction: a query, or ' +
    'a batch with `queries`. An error of Postgres is a 400 whose `code` is the SQLSTATE, in addition to the other ' +
    'fields of Postgres (`detail`, `position`, `constraint` and so on).',
  tag: 'sql',
  audit: 'sql',
  work: 'sql',
  headers: wire.NeonHeaders,
  token: neonToken,
  body: wire.NeonBody,
  rawBody: 'json-or-text',
  example: { query: 'SELECT email FROM customers WHERE age > $1', params: [30] },
  success: {
    status: 200,
    response: wire.NeonResponse,
    example: {
      command: 'SELECT',
      rowCount: 1,
      fields: [
        {
          name: 'email',
          dataTypeID: 25,
          tableID: 16_459,
          columnID: 2,
          dataTypeSize: -1,
          dataTypeModifier: -1,
          format: 'text',
        },
      ],
      rowAsArray: false,
      rows: [{ email: 'ada@example.com' }],
    },
  },
  errors: [...SQL_ERRORS, 'quota_exceeded', 'outcome_unknown'],
  async handle(call) {
    const { caller, request, signal } = call;
    const { context, headers } = request;
    const readOnly = runsAsNeonReader(caller, headers);
    const { queries, isBatch } = readNeonBody(await decodeBody(request));
    context.sql = { text: queries.map(({ text }) => text).join(';\n'), readOnly };
    const asksForModes = isBatch || Object.keys(headers).some((name) => name.startsWith('neon-batch-'));
    const asArrays = booleanHeader(headers, 'Neon-Array-Mode') ?? false;
    const results = await runQueries(projectOf(call), {
      queries,
      readOnly,
      rowMode: asArrays ? 'array' : 'object',
      asText: booleanHeader(headers, 'Neon-Raw-Text-Output') ?? false,
      // The driver cannot ask for a time limit, but it can disconnect.
      timeoutMs: LIMITS.timeoutMsMax,
      signal,
      ...(asksForModes ? { modes: modesOf(headers, readOnly) } : {}),
    });
    for (const { rows } of results) context.freeWhenSent(rows);
    const rows = results.reduce((sum, { rowCount }) => sum + (rowCount ?? 0), 0);
    return { body: neonResponse(results, isBatch, asArrays), rows };
  },
  failure: neonFailure,
};
