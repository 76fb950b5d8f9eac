/** A schema call as the request that the client sends, and as the command that does the same. */
import { curlOf } from '../parts/api-request.js';

export interface SchemaRequest {
  readonly method: 'POST' | 'PUT' | 'DELETE';
  /** The parts after `/api/cdp/schema/`. */
  readonly path: readonly string[];
  readonly body?: object;
  readonly query?: string;
}

/** For a shell in which `$TOKEN` is set: the token itself is not shown. */
export const toCurl = ({ method, path, body, query }: SchemaRequest): string =>
  curlOf({
    method,
    path: `/api/cdp/schema/${path.map(encodeURIComponent).join('/')}${query ? `?${query}` : ''}`,
    ...(body === undefined ? {} : { body }),
  });
