/** Running requests over HTTP, for an admin token. */
import { EngineError } from '../../contract/errors.js';
import { counted } from '../../contract/message-text.js';
import { PROJECT_NAME_PATTERN } from '../../contract/names.js';
import { roundedMs } from '../../contract/wire/fields.js';
import { DOCUMENTED, Type } from '../../contract/schema.js';
import * as wire from '../../contract/wire/requests.js';
import { projectInPath } from './call-inputs.js';
import { ADMIN, type Operation, succeeds } from './operation.js';

const RequestInPath = Type.Object({
  project: Type.String({ [DOCUMENTED]: { pattern: PROJECT_NAME_PATTERN } }),
  request_id: Type.String(),
});

const ID = '0b0f8a9c-7d0e-4a5f-9d6e-2f6f0c1c2d3e';

const LIST_REQUESTS: Operation = {
  ...ADMIN,
  method: 'GET',
  url: '/api/cdp/admin/requests',
  operationId: 'listRequests',
  summary: 'List the requests that use a database now, oldest first',
  description: 'Lists requests of all projects on the instance that answers, both running and waiting for a slot.',
  audit: { operation: 'request.list', isChange: false, isPolled: true },
  success: succeeds(200, wire.RunningRequestsResponse, '1 request', {
    requests: [
      {
        request_id: ID,
        project: 'shop',
        operation: 'sql',
        token_id: ID,
        token_name: 'importer',
        address: '192.0.2.7',
        duration_ms: 1204.5,
      },
    ],
  }),
  errors: [],
  handle({ engine }) {
    const now = performance.now();
    const requests = engine.liveRequests
      .list()
      .map(({ id, caller, operation, address, startedAt }): wire.RunningRequest => ({
        request_id: id,
        project: caller.project?.name ?? '',
        operation,
        token_id: caller.id,
        token_name: caller.name,
        address,
        duration_ms: roundedMs(now - startedAt),
      }));
    const message = counted(requests.length, 'request');
    return Promise.resolve({ body: { success: true, message, requests } });
  },
};

const CANCEL_REQUEST: Operation = {
  ...ADMIN,
  method: 'DELETE',
  url: '/api/cdp/admin/projects/:project/requests/:request_id',
  operationId: 'cancelRequest',
  summary: 'Cancel a running request',
  description:
    'Its statement is canceled in Postgres, and its caller gets 504 `query_timeout`, or `outcome_unknown` if it was ' +
    'committing. The request must run on the instance that answers.',
  audit: { operation: 'request.cancel', isChange: true },
  params: RequestInPath,
  success: succeeds(200, wire.CancelResponse, 'request canceled', { canceled: 1 }),
  errors: ['not_found'],
  handle(call) {
    const { request_id: id } = call.request.params as { request_id: string };
    const canceled = call.engine.liveRequests.cancel(projectInPath(call), id);
    if (canceled === 0) throw new EngineError('not_found', 'No such request is running');
    return Promise.resolve({ body: { success: true, message: 'request canceled', canceled } });
  },
};

export const REQUESTS: readonly Operation[] = [LIST_REQUESTS, CANCEL_REQUEST];
