/** A Postgres server as an address: where it is, and what a login there takes, whatever the role. */
import { connect, type OnReadOpts, type Socket } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import { parse as parseConnectionString } from 'pg-connection-string';

export interface Host {
  readonly host: string;
  readonly port: number;
}

/** The servers of a cluster, of which one is the primary. The next login begins at the one that the last one found. */
export interface Hosts {
  readonly list: readonly Host[];
  /** `target_session_attrs`: a standby will not do. */
  readonly needsPrimary: boolean;
  current: number;
}

/** What one login takes. */
export interface LoginOptions {
  /** Host name, IP address, or the folder of a Unix socket. */
  host: string;
  port: number;
  /** Where to look for the server, if the URL says more than one host; then `host` and `port` are the first. */
  hosts?: Hosts;
  user: string;
  password: string;
  database: string;
  ssl?: boolean | ConnectionOptions;
  /** `-c name=value …` (Postgres manual 20.1.4), see {@link startupOptions}. */
  options?: string;
  application_name?: string;
  /** For the whole login. */
  connectionTimeoutMillis: number;
  /** Silence after which the system checks whether the other side is still there (TCP keep-alive). */
  keepAliveMs?: number;
}

/** Where a server is, and the service's own role on it. `database` is the control database. */
export type ServerAddress = Omit<LoginOptions, 'options' | 'application_name'>;

const CONNECT_TIMEOUT_MS = 5_000;
const KEEP_ALIVE_MS = 10_000;

/** Options of a URL that have an effect. Whoever writes another one relies on it. */
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

/** What the service, which writes, can use of `target_session_attrs`. */
const TARGETS = ['any', 'primary', 'read-write'];

/** The hosts between the user and the path. */
const AUTHORITY = /^(\w+:\/\/(?:[^/?#]*@)?)([^@/?#]*,[^@/?#]*)/;

/**
 * @param url `postgres://user:password@host:port,host:port/database?sslmode=…`
 * @throws Error naming what is missing, never repeating the url: it holds a password
 */
export function addressOfUrl(url: string): ServerAddress {
  const several = AUTHORITY.exec(url)?.[2];
  const parsed = parse(url.replace(AUTHORITY, '$1several'));
  const { user, password, database, ssl } = parsed;
  const list = several === undefined ? hostsOf(parsed.host ?? '', parsed.port ?? '') : several.split(',').map(hostOf);
  const [first] = list;
  if (!first?.host || !user || !database) throw new Error('DATABASE_URL must name a host, a user and a database');
  if (list.some(({ host }) => host.startsWith('/') !== first.host.startsWith('/'))) {
    throw new Error('DATABASE_URL must name either hosts or folders of Unix sockets, not both');
  }
  const { target_session_attrs: target = list.length > 1 ? 'primary' : 'any' } = parsed as Record<string, unknown>;
  if (!TARGETS.includes(String(target))) {
    throw new Error(`DATABASE_URL: target_session_attrs must be one of ${TARGETS.join(', ')}`);
  }
  const needsPrimary = target !== 'any';
  return {
    ...first,
    ...(list.length > 1 || needsPrimary ? { hosts: { list, needsPrimary, current: 0 } } : {}),
    user,
    password: password ?? '',
    database,
    connectionTimeoutMillis: connectTimeout((parsed as Record<string, unknown>).connect_timeout),
    keepAliveMs: KEEP_ALIVE_MS,
    ...(ssl === undefined ? {} : { ssl: ssl as boolean | ConnectionOptions }),
  };
}

/** @throws Error that says which option, or which file that one names, cannot be used */
function parse(url: string): ReturnType<typeof parseConnectionString> {
  const query = url.includes('?') ? url.slice(url.indexOf('?')) : '';
  const unknown = [...new URLSearchParams(query).keys()].filter((name) => !OPTIONS.has(name));
  if (unknown.length > 0) {
    throw new Error(`DATABASE_URL has options that are not supported: ${unknown.join(', ')}. Remove them`);
  }
  try {
    return parseConnectionString(url);
  } catch (error) {
    const { syscall, path } = error as NodeJS.ErrnoException;
    if (syscall !== undefined) throw new Error(`DATABASE_URL names a file that cannot be read: ${path}`);
    throw new Error('DATABASE_URL is not a valid connection string (postgres://user:password@host:port/database)');
  }
}

/** `host:port`, `host`, `[::1]:port` */
function hostOf(text: string): Host {
  const [, host = '', port = ''] = /^(\[.*\]|[^:]*)(?::(\d+))?$/.exec(text) ?? [];
  return { host: decodeURIComponent(host.replace(/^\[(.*)\]$/, '$1')), port: portOf(port) };
}

/** `host=h1,h2&port=5432,5433`; one port stands for all. */
function hostsOf(hosts: string, ports: string): Host[] {
  const given = ports.split(',');
  return hosts.split(',').map((host, i) => ({ host, port: portOf(given[i] ?? given[0] ?? '') }));
}

const portOf = (text: string): number => (text === '' ? 5432 : Number(text));

/** @param seconds as in the URL; 0 means no limit to libpq, and the default here */
function connectTimeout(seconds: unknown): number {
  if (typeof seconds !== 'string') return CONNECT_TIMEOUT_MS;
  if (!/^\d+$/.test(seconds)) throw new Error('DATABASE_URL: connect_timeout must be a number of seconds');
  return Number(seconds) * 1_000 || CONNECT_TIMEOUT_MS;
}

/**
 * `-c` options for the start of a connection. They become the session's defaults, which RESET ALL and DISCARD ALL
 * return to, and they win over whatever `ALTER ROLE … SET` or `ALTER DATABASE … SET` left behind.
 */
export function startupOptions(settings: Readonly<Record<string, string>>): string {
  return Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${value.replace(/[\\ ]/g, '\\$&')}`)
    .join(' ');
}

/** A socket that is about to connect: TCP, or the Unix socket in the folder. */
export function connectTo({ host, port }: Pick<ServerAddress, 'host' | 'port'>, onread?: OnReadOpts): Socket {
  const place = host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port };
  return connect({ ...place, ...(onread === undefined ? {} : { onread }) });
}
