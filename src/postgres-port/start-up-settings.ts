/** The settings of a session that a client may specify in its startup packet. */
import { SessionError } from '../engine/sessions/session-error.js';

export interface StartUpSettings {
  readonly user: string;
  readonly database: string;
  readonly applicationName: string;
  readonly settings: Record<string, string>;
  /** Options of the protocol; the service supports none. */
  readonly protocolOptions: string[];
}

const NAME = /^[a-z_][a-z0-9_.]*$/;

const REFUSED = new Set([
  // They would change the session's role, which the token determines.
  ...['role', 'session_authorization', 'replication'],
  // The backend would sleep for up to half an hour, after the login had timed out and released its slot.
  'post_auth_delay',
  // It loads code into the backend, and a library that does not exist makes the login fail.
  'local_preload_libraries',
]);

/** @throws SessionError */
export function startUpSettings(parameters: ReadonlyMap<string, string>): StartUpSettings {
  const user = parameters.get('user') ?? '';
  if (user === '') throw new SessionError('28000', 'no PostgreSQL user name specified in startup packet', 'malformed');
  const settings = new Map<string, string>();
  const protocolOptions: string[] = [];
  let applicationName = '';
  const set = (givenName: string, value: string) => {
    const name = givenName.toLowerCase().replaceAll('-', '_');
    if (name === 'replication' && /^(?:off|false|no|0)$/i.test(value)) return;
    if (REFUSED.has(name)) throw new SessionError('0A000', `${name} is not supported here`, 'invalid_request');
    if (!NAME.test(name)) {
      throw new SessionError(
        '42704',
        `unrecognized configuration parameter "${givenName.slice(0, 63)}"`,
        'invalid_request',
      );
    }
    if (name === 'application_name') applicationName = value;
    else settings.set(name, value);
  };
  for (const [name, value] of parameters) {
    if (name.startsWith('_pq_.')) protocolOptions.push(name);
    else if (name === 'options') for (const [option, text] of commandLine(value)) set(option, text);
    else if (name !== 'user' && name !== 'database') set(name, value);
  }
  const database = parameters.get('database') ?? user;
  return { user, database, applicationName, settings: Object.fromEntries(settings), protocolOptions };
}

/** Parses `-c name=value --name=value`, with backslashes before spaces (Postgres manual, libpq `options`). */
function commandLine(options: string): [name: string, value: string][] {
  const words = (options.match(/(?:\\[^]|[^\s\\])+/g) ?? []).map((word) => word.replace(/\\([^])/g, '$1'));
  const settings: [string, string][] = [];
  for (let i = 0; i < words.length; i++) {
    const word = words[i] ?? '';
    const setting = word === '-c' ? words[++i] : /^(?:-c|--)(?=.)/.test(word) ? word.slice(2) : undefined;
    const [, name, value] = /^([^=]+)=([^]*)$/.exec(setting ?? '') ?? [];
    if (name === undefined || value === undefined) {
      throw new SessionError('42601', 'options: only -c name=value and --name=value are supported', 'invalid_request');
    }
    settings.push([name, value]);
  }
  return settings;
}
