/** A request to the API as the console sends it, and as an equivalent command. */
import { Transport } from '../../../src/client/transport.js';
import { currentSession, watchedFetch } from '../session.js';
import { copyText } from './clipboard.js';
import { IconButton } from './icon.js';

export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** The path from `/api/cdp` on, encoded. */
  readonly path: string;
  readonly body?: object;
}

/** @throws CdpError */
export function send<Result>({ method, path, body }: ApiRequest): Promise<Result> {
  const { token } = currentSession();
  const transport = new Transport({
    url: location.origin,
    token,
    fetch: watchedFetch(token),
    maxRetries: 2,
  });
  return transport.json<Result>({
    method,
    path,
    idempotent: method === 'GET',
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

/** The command for a shell. The token is in a variable, so that it appears neither on the screen nor in a history. */
export function curlOf({ method, path, body }: ApiRequest): string {
  const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
  const lines = [
    `curl -sS${method === 'GET' || (method === 'POST' && body !== undefined) ? '' : ` -X ${method}`} ${quoted(location.origin + path)}`,
    `-H "Authorization: Bearer $TOKEN"`,
  ];
  if (body !== undefined) lines.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body))}`);
  return lines.join(' \\\n  ');
}

export const Curl = ({ request }: { request: ApiRequest }) => (
  <details class="curl">
    <summary>The request as curl</summary>
    <div class="curl-body">
      <pre tabIndex={0}>{curlOf(request)}</pre>
      <IconButton
        icon="copy"
        label="Copy the command"
        onClick={() => void copyText(curlOf(request), 'Command copied')}
      />
    </div>
  </details>
);
