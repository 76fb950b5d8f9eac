/** What the token of a request is, for programs that were given one: which project it opens, and with which scopes. */
import { SCOPES } from '../../contract/names.js';
import * as wire from '../../contract/wire/projects.js';
import { type Operation, project } from './route.js';

const ID = '0198c7a2-1f6e-7cc0-9a42-0d6e6f1b2c3d';

export const READ_TOKEN: Operation = {
  operationId: 'readToken',
  summary: 'What this token is',
  description: 'The project that the token of the request belongs to, and its scopes.',
  tag: 'token',
  audit: 'token.read',
  work: null,
  success: {
    status: 200,
    answer: wire.OwnTokenAnswer,
    example: {
      success: true,
      message: 'token found',
      project: { id: ID, name: 'shop' },
      token: { id: ID, name: 'importer', scopes: ['schema:read', 'data:write'] },
    },
  },
  errors: [],
  handle(context) {
    const { id, name, scopes } = context.caller;
    const { id: projectId, name: projectName } = project(context);
    const token = { id, name, scopes: SCOPES.filter((scope) => scopes.has(scope)) };
    const answer = { success: true, message: 'token found', project: { id: projectId, name: projectName }, token };
    return Promise.resolve({ body: answer });
  },
};
