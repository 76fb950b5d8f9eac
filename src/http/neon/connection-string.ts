/** The header Neon-Connection-String: the caller's token, the project and the user. */
import type { IncomingHttpHeaders } from 'node:http';
import { EngineError } from '../../contract/errors.js';
import { quoted } from '../../contract/message-text.js';
import type { Caller } from '../../engine/access/tokens.js';
import { bearerToken, requireScope, runsAsReader } from '../admission.js';
import { HttpError } from '../response/http-error.js';

const FORM = 'postgresql://writer:<token>@<host>/<project>';

/** Decoded; '' for a missing part. */
interface ConnectionString {
  readonly user: string;
  readonly password: string;
  readonly database: string;
}

/** undefined: the text is not a connection string. */
function parse(text: string): ConnectionString | undefined {
  try {
    const { protocol, username, password, pathname } = new URL(text);
    if (!/^postgres(?:ql)?:$/.test(protocol)) return undefined;
    const [user = '', secret = '', database = ''] = [username, password, pathname.slice(1)].map(decodeURIComponent);
    return { user, password: secret, database };
  } catch {
    return undefined;
  }
}

const headerOf = ({ 'neon-connection-string': header }: IncomingHttpHeaders): string | undefined =>
  header === undefined ? undefined : String(header);

/**
 * The token in the Authorization header (the driver's `authToken`), otherwise the password. @throws EngineError
 * unauthorized
 */
export function neonToken(headers: IncomingHttpHeaders): string {
  if (headers.authorization !== undefined) return bearerToken(headers);
  const { password = '' } = parse(headerOf(headers) ?? '') ?? {};
  if (password === '') {
    throw new HttpError('unauthorized', `The connection string must be ${FORM}`, {
      'www-authenticate': 'Bearer realm="cdp"',
    });
  }
  // The same syntax applies as in the other header.
  return bearerToken({ authorization: `Bearer ${password}` });
}

/**
 * Whether the request runs as the reader: as the user says, or if there is none, as for free SQL.
 * @throws EngineError invalid_request for an unknown user or another project; insufficient_scope
 */
export function runsAsNeonReader(caller: Caller, headers: IncomingHttpHeaders): boolean {
  const header = headerOf(headers);
  const connection = header === undefined ? { user: '', database: '' } : parse(header);
  if (connection === undefined) throw wrong(`The connection string must be ${FORM}`);
  const { user, database } = connection;
  const project = caller.project?.name ?? '';
  if (database !== '' && database !== project) {
    throw wrong(`The token is not for the database ${quoted(database)}, but for ${quoted(project)}`);
  }
  if (!['', 'writer', 'reader'].includes(user)) {
    throw wrong(`There is no user ${quoted(user)}: use "writer", or "reader" for READ ONLY transactions`);
  }
  const isReader = runsAsReader(caller, user === '' ? undefined : user === 'reader');
  requireScope(caller, isReader ? 'sql:read' : 'sql:write');
  return isReader;
}

/** The driver shows the message of a 400, but no hint. */
const wrong = (message: string) => new EngineError('invalid_request', message);
