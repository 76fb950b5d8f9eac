/** From the text of a setting to its value. Each throws an Error saying what is expected. */
import { isIP } from 'node:net';
import type { Rate } from './http/gate/rate-limit.js';

export const text = (what: string) => (value: string) => {
  if (value === '') throw new Error(`${what} must not be empty`);
  return value;
};

export const integer = (min: number, max: number) => (value: string) => {
  const number = Number(value);
  if (!/^\d+$/.test(value) || number < min || number > max) {
    throw new Error(`must be a whole number from ${min} to ${max}`);
  }
  return number;
};

export const oneOf =
  <T extends string>(...allowed: readonly T[]) =>
  (value: string) => {
    const found = allowed.find((word) => word === value);
    if (found === undefined) throw new Error(`must be one of ${allowed.join(', ')}`);
    return found;
  };

export const url = (value: string) => {
  if (!/^https?:\/\//.test(value) || !URL.canParse(value)) throw new Error('must be an http or https URL');
  return value;
};

export const databaseUrl = (value: string) => {
  if (!/^postgres(ql)?:\/\//.test(value)) throw new Error('must be postgres://user:password@host:port/database');
  return value;
};

export const secret = (value: string) => {
  if (value.length < 32) throw new Error('must have at least 32 characters');
  return value;
};

export const yesOrNo = (value: string) => oneOf('true', 'false')(value) === 'true';

/** Extension names, which go into statements quoted and into an array's text as they are. */
export const extensionNames = (value: string) => {
  const names = value.split(',').map((name) => name.trim());
  if (!names.every((name) => /^[a-z][a-z0-9_-]{0,62}$/.test(name))) {
    throw new Error('must be names of extensions, separated by commas');
  }
  return names;
};

const SECONDS = { s: 1, m: 60, h: 3_600 } as const;

/** `100/1s`, `5000/1m`, `100000/24h`. */
export const rate = (value: string): Rate => {
  const [, requests, length, unit] = /^([1-9]\d{0,8})\/([1-9]\d{0,4})([smh])$/.exec(value) ?? [];
  const windowS = Number(length) * (SECONDS[unit as keyof typeof SECONDS] ?? NaN);
  if (!(windowS <= 86_400)) {
    throw new Error('must be requests per time, up to a day, such as 100/1s, 5000/1m or 50000/24h');
  }
  return { requests: Number(requests), windowS };
};

const NETWORKS = ['loopback', 'linklocal', 'uniquelocal'];

/** A list of addresses, networks (`10.0.0.0/8`) and the names that Fastify's `trustProxy` knows. */
export const proxies = (value: string): readonly string[] => {
  const list = value.split(',').map((part) => part.trim());
  const isProxy = (part: string) => {
    const [address = '', bits, ...more] = part.split('/');
    const most = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1;
    const isNetwork = more.length === 0 && (bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= most));
    return NETWORKS.includes(part) || (most > 0 && isNetwork);
  };
  if (!list.every(isProxy)) {
    throw new Error(`must be addresses, networks such as 10.0.0.0/8, or ${NETWORKS.join(', ')}, separated by commas`);
  }
  return list;
};

/** `*`, or origins as browsers send them, separated by commas. */
export const origins = (value: string): readonly string[] => {
  const list = value.split(',').map((part) => part.trim());
  const isOrigin = (part: string) =>
    /^https?:\/\/[^*]+$/.test(part) && URL.canParse(part) && new URL(part).origin === part;
  if (value !== '*' && !list.every(isOrigin)) {
    throw new Error('must be * or origins such as https://app.example.com, without a path, separated by commas');
  }
  return list;
};

/** `50000-59999`; `off` for none. */
export const uidRange = (value: string): string | null => {
  if (value === 'off') return null;
  const { first, last } = parseUidRange(value);
  if (!(first > 0 && last >= first && last < 2 ** 31)) throw new Error('must be off or a range such as 50000-59999');
  return value;
};

export function parseUidRange(range: string): { first: number; last: number } {
  const [, first, last] = /^(\d{1,10})-(\d{1,10})$/.exec(range) ?? [];
  return { first: Number(first), last: Number(last) };
}
