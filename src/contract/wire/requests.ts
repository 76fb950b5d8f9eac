/** Running requests on the wire. */
import { type Static, Type } from '../schema.js';
import { success } from './fields.js';

export const RunningRequest = Type.Object({
  request_id: Type.String({ description: 'The id in the header `X-Request-Id` of its response.' }),
  project: Type.String(),
  operation: Type.String({ description: 'The operation, named as in the audit log.', examples: ['sql'] }),
  token_id: Type.String({ description: 'The id of the token, or the subject of a JWT.' }),
  token_name: Type.Nullable(Type.String()),
  address: Type.String(),
  duration_ms: Type.Number({ description: 'Time since the request began.' }),
});
export type RunningRequest = Static<typeof RunningRequest>;

export const RunningRequestsResponse = Type.Object({ ...success, requests: Type.Array(RunningRequest) });
export type RunningRequestsResponse = Static<typeof RunningRequestsResponse>;

export const CancelResponse = Type.Object({ ...success, canceled: Type.Integer() });
export type CancelResponse = Static<typeof CancelResponse>;
