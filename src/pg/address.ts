/** The address of a Postgres server, and everything that a login needs. */
import { connect, type OnReadOpts, type Socket } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import { parse as parseConnectionString } from 'pg-connection-string';
import { type Host, Hosts } from './hosts.js';

export interface LoginOptions {
  /** Host name, IP address, or the folder of a Unix socket. */
  host: string;
  port: number;
  /** Set if the URL names more than one host; `host` and `port` are then those of the first. */
  hosts?: Hosts;
  /** Refuse a standby. */
  needsPrimary?: boolean;
  user: string;
  password: string;
  database: string;
  ssl?: boolean | ConnectionOptions;
  /** `-c name=value …` (Postgres manual, Parameter Interaction via the Shell), see {@link startupOptions}. */
  options?: string;
  application_name?: string;
  /** The connection speaks the streaming replication protocol, for logical decoding. */
  replication?: 'database';
  /** Default: UTF8. */
  client_encoding?: string;
  /** The limit for the whole login. */
  connectionTimeoutMillis: number;
  /** Time without traffic after which the system checks whether the other side still responds (TCP keep-alive). */
  keepAliveMs?: number;
}

/** The address of a server, and the service's role on it. `database` is the control database. */
export type ServerAddress = Omit<LoginOptions, 'options' | 'application_name' | 'client_encoding'>;

const CONNECT_TIMEOUT_MS = 5_000;
const KEEP_ALIVE_MS = 10_000;

/** Options of a URL that have an effect. Others are refused, because an operator would rely on them. */
const OPTIONS = new Set([
  'host',
  'port',
  'user',
  'password',
  'ssl',
  'sslmode',
  'sslcert',
  'sslkey',
  'sslrootcert',
  'uselibpqcompat',
  'target_session_attrs',
  'connect_timeout',
]);

/** pg-connection-string treats these modes as `verify-full` and prints a warning to standard error. */
const VERIFYING = /([?&]sslmode=)(?:prefer|require|verify-ca)(?=&|$)/;

/**
 * Values of `target_session_attrs` (Postgres manual, Parameter Key Words) that suit a service that writes. All of them
 * mean the primary here.
 */
const TARGETS = ['any', 'primary', 'read-write'];

/** Several hosts between the user and the path. A placeholder replaces them while the rest is parsed. */
const AUTHORITY = /^(\w+:\/\/(?:[^/?#]*@)?)([^@/?#]*,[^@/?#]*)/;
const SEVERAL = 'several.invalid';

/**
 * @param url `postgres://user:password@host:port,host:port/database?sslmode=…`
 * @param source where the URL was found, for errors
 * @throws Error that names what is missing, but never repeats the URL, which contains a password
 */
export function addressOfUrl(url: string, source = 'DATABASE_URL'): ServerAddress {
  try {
    return readUrl(url);
  } catch (error) {
    throw new Error((error as Error).message.replace('DATABASE_URL', source));
  }
}

function readUrl(url: string): ServerAddress {
  const several = AUTHORITY.exec(url)?.[2] ?? '';
  const parsed = parse(url.replace(AUTHORITY, `$1${SEVERAL}`));
  const { user, password, database, ssl, host = '', port = '' } = parsed;
  const { target_session_attrs: target, connect_timeout: timeout } = parsed as unknown as Record<string, string>;
  const list = host === SEVERAL ? several.split(',').map(hostOf) : hostsOf(host ?? '', port ?? '');
  const [first] = list;
  if (!first || list.some(({ host }) => host === '') || !user || !database) {
    throw new Error('DATABASE_URL must name a host, a user and a database');
  }
  if (list.some(({ host }) => host.startsWith('/') !== first.host.startsWith('/'))) {
    throw new Error('DATABASE_URL must name either hosts or folders of Unix sockets, not both');
  }
  if (target !== undefined && !TARGETS.includes(target)) {
    throw new Error(
      `DATABASE_URL: target_session_attrs must be one of ${TARGETS.join(', ')}, because the service writes`,
    );
  }
  return {
    ...first,
    ...(list.length > 1 ? { hosts: new Hosts(list) } : {}),
    needsPrimary: true,
    user,
    password: password ?? '',
    database,
    connectionTimeoutMillis: connectTimeout(timeout),
    keepAliveMs: KEEP_ALIVE_MS,
    ...(ssl === undefined ? {} : { ssl: ssl as boolean | ConnectionOptions }),
  };
}

/** @throws Error that names the option, or the file in an option, that cannot be used */
function parse(url: string): ReturnType<typeof parseConnectionString> {
  const query = url.includes('?') ? url.slice(url.indexOf('?')) : '';
  const unknown = [...new URLSearchParams(query).keys()].filter((name) => !OPTIONS.has(name));
  if (unknown.length > 0) {
    throw new Error(`DATABASE_URL has options that are not supported: ${unknown.join(', ')}. Remove them`);
  }
  try {
    return parseConnectionString(url.includes('uselibpqcompat') ? url : url.replace(VERIFYING, '$1verify-full'));
  } catch (error) {
    const { syscall, path } = error as NodeJS.ErrnoException;
    if (syscall !== undefined) throw new Error(`DATABASE_URL names a file that cannot be read: ${path}`);
    throw new Error('DATABASE_URL is not a valid connection string (postgres://user:password@host:port/database)');
  }
}

/** `host:port`, `host` or `[::1]:port`. */
function hostOf(text: string): Host {
  const [, host = '', port = ''] = /^(\[.*\]|[^:]*)(?::(.*))?$/.exec(text) ?? [];
  return { host: decodeURIComponent(host.replace(/^\[(.*)\]$/, '$1')), port: portOf(port) };
}

/** `host=h1,h2&port=5432,5433`; a single port applies to all hosts. */
function hostsOf(hosts: string, ports: string): Host[] {
  const [names, numbers] = [hosts.split(','), ports.split(',')];
  if (numbers.length > 1 && numbers.length !== names.length) {
    throw new Error(`DATABASE_URL names ${names.length} hosts and ${numbers.length} ports`);
  }
  return names.map((host, i) => ({ host, port: portOf(numbers[i] ?? numbers[0] ?? '') }));
}

function portOf(text: string): number {
  const port = text === '' ? 5432 : Number(text);
  if (!/^\d*$/.test(text) || port < 1 || port > 65_535) throw new Error(`DATABASE_URL: ${text} is not a port`);
  return port;
}

/** @param seconds from the URL; 0 means the default (in libpq: no limit) */
function connectTimeout(seconds: string | undefined): number {
  if (seconds === undefined) return CONNECT_TIMEOUT_MS;
  if (!/^\d+$/.test(seconds)) throw new Error('DATABASE_URL: connect_timeout must be a number of seconds');
  return Number(seconds) * 1_000 || CONNECT_TIMEOUT_MS;
}

/**
 * `-c` options for the start of a connection. They become the session's defaults, to which RESET ALL and DISCARD ALL
 * return, and override those that `ALTER ROLE … SET` or `ALTER DATABASE … SET` left.
 */
export function startupOptions(settings: Readonly<Record<string, string>>): string {
  return Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${value.replace(/[\\ \t\n\v\f\r]/g, '\\$&')}`)
    .join(' ');
}

/** A connecting socket: TCP, or the Unix socket in the folder. */
export function connectTo({ host, port }: Pick<ServerAddress, 'host' | 'port'>, onread?: OnReadOpts): Socket {
  const place = host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port };
  return connect({ ...place, ...(onread === undefined ? {} : { onread }) });
}
