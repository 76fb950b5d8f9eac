/** The declaration of a setting, and the kinds of values that settings have. */
import { createRequire } from 'node:module';
import { isIP } from 'node:net';
import { resolve } from 'node:path';
import type * as croner from 'croner';
import { parseQuota } from './contract/disk-size.js';
import { messageOf } from './contract/errors.js';
import type { Rate } from './engine/access/rate-limits.js';

/** A kind of value: its placeholder in `--help`, and its parser. */
interface Kind<T> {
  readonly value: string;
  /** @throws Error that says what is expected */
  parse(text: string): T;
}

export interface SettingRow<T> extends Kind<T> {
  readonly default: T;
  /** For `--help` and docs/settings.md: an imperative that is clear without the name of the setting. */
  readonly describe: string;
  /** The environment variable, if the setting has an established one. */
  readonly env?: string;
  /** The value must never be printed. */
  readonly secret?: boolean;
  /** People are shown the text as written instead of the parsed value. */
  readonly isShownAsWritten?: boolean;
}

export interface Setting<T> extends SettingRow<T> {
  /** `--data-dir` on the command line, `data-dir` in the file. */
  readonly flag: string;
  readonly env: string;
}

/** The value that people are shown, unless it {@link Setting.isShownAsWritten}. */
export type Shown = string | number | boolean | readonly string[] | null;

type Extra = Pick<SettingRow<unknown>, 'env' | 'secret' | 'isShownAsWritten'>;

export const setting = <T>(defaultValue: T, kind: Kind<T>, describe: string, extra: Extra = {}): SettingRow<T> => ({
  default: defaultValue,
  describe,
  ...kind,
  ...extra,
});

/** Derives names from the key: `dataDir` becomes `--data-dir` and `CDP_DATA_DIR`. */
export function withNames<Rows extends Record<string, SettingRow<unknown>>>(rows: Rows) {
  const settings = Object.entries(rows).map(([name, row]) => {
    const flag = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    return [name, { flag, env: `CDP_${flag.toUpperCase().replaceAll('-', '_')}`, ...row }];
  });
  return Object.fromEntries(settings) as {
    [K in keyof Rows]: Rows[K] & { readonly flag: string; readonly env: string };
  };
}

type Parse<T> = (text: string) => T;

const kind = <T>(value: string, parse: Parse<T>): Kind<T> => ({ value, parse });

const whole =
  (min: number, max: number): Parse<number> =>
  (text) => {
    const number = Number(text);
    if (!/^\d+$/.test(text) || number < min || number > max) {
      throw new Error(`must be a whole number from ${min} to ${max}`);
    }
    return number;
  };

export const integer = (min: number, max: number) => kind('N', whole(min, max));
export const milliseconds = (min: number, max: number) => kind('MS', whole(min, max));
export const mebibytes = (min: number) => kind('MIB', whole(min, 1_048_576));

/** @param value placeholder in `--help` */
export const text = (value: string) =>
  kind(value, (text) => {
    if (text === '') throw new Error('must not be empty');
    return text;
  });

/** A folder; the value is absolute. */
export const folder = kind('DIR', (path) => resolve(text('DIR').parse(path)));

/** A schedule in cron's format, in the time zone of the process. Few services have one, so the library is loaded then. */
export const schedule = kind('CRON', (text) => {
  try {
    const { Cron } = createRequire(import.meta.url)('croner') as typeof croner;
    if (new Cron(text, { paused: true }).nextRun() === null) throw new Error('it names no time to come');
    return text;
  } catch (error) {
    throw new Error(`must be a schedule such as "0 3 * * *": ${messageOf(error)}`);
  }
});

export const oneOf = <T extends string>(value: string, ...allowed: readonly T[]) =>
  kind(value, (text) => {
    const matching = allowed.find((word) => word === text);
    if (matching === undefined) throw new Error(`must be one of ${allowed.join(', ')}`);
    return matching;
  });

export const boolean = kind('BOOLEAN', (text) => oneOf('', 'true', 'false').parse(text) === 'true');

const matching = (value: string, pattern: RegExp, expected: string) =>
  kind(value, (text) => {
    if (!pattern.test(text)) throw new Error(`must ${expected}`);
    return text;
  });

export const secret = matching('TEXT', /^[^]{32,}$/, 'have at least 32 characters');
export const databaseUrl = matching('URL', /^postgres(ql)?:\/\//, 'be postgres://user:password@host:port/database');

export const url = kind('URL', (text) => {
  if (!/^https?:\/\//.test(text) || !URL.canParse(text)) throw new Error('must be an http or https URL');
  return text;
});

/** A comma-separated list. */
const list = (value: string, isItem: (item: string) => boolean, expected: string) =>
  kind<readonly string[]>(value, (text) => {
    const items = text.split(',').map((item) => item.trim());
    if (!items.every(isItem)) throw new Error(`must be ${expected}, separated by commas`);
    return items;
  });

/** Extension names are quoted in statements, but not in the text of an array. */
export const extensionNames = list('NAMES', (name) => /^[a-z][a-z0-9_-]{0,62}$/.test(name), 'names of extensions');

const NETWORKS = ['loopback', 'linklocal', 'uniquelocal'];

/** An address, or a network such as `10.0.0.0/8`. */
function isNetwork(item: string): boolean {
  const [address = '', bits, ...more] = item.split('/');
  const maxBits = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1;
  return (
    maxBits > 0 && more.length === 0 && (bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= maxBits))
  );
}

export const networks = list('LIST', isNetwork, 'addresses or networks such as 10.0.0.0/8');

/** Addresses, networks (`10.0.0.0/8`) and the names that Fastify's `trustProxy` accepts. */
export const proxies = list(
  'LIST',
  (item) => NETWORKS.includes(item) || isNetwork(item),
  `addresses, networks such as 10.0.0.0/8, or ${NETWORKS.join(', ')}`,
);

const originList = list(
  'LIST',
  (item) => /^https?:\/\/[^*]+$/.test(item) && URL.canParse(item) && new URL(item).origin === item,
  '* or origins such as https://app.example.com, without a path',
);

/** `*`, or origins as browsers send them. */
export const origins = kind('LIST', (text) => (text === '*' ? ['*'] : originList.parse(text)));

const SECONDS = { s: 1, m: 60, h: 3_600 } as const;

/** Such as `100/1s`, `5000/1m` or `100000/24h`. */
export const rate = kind<Rate>('N/TIME', (text) => {
  const [, requests, length, unit] = /^([1-9]\d{0,8})\/([1-9]\d{0,4})([smh])$/.exec(text) ?? [];
  const windowS = Number(length) * (SECONDS[unit as keyof typeof SECONDS] ?? NaN);
  if (!(windowS <= 86_400)) {
    throw new Error('must be requests per time, up to a day, such as 100/1s, 5000/1m or 50000/24h');
  }
  return { requests: Number(requests), windowS };
});

/** Such as `500MB`; `off` for none. */
export const quota = kind('SIZE', (text) => (text === 'off' ? null : parseQuota(text)));

/** Such as `50000-59999`; `off` for none. */
export const uidRange = kind('RANGE', (text) => {
  if (text === 'off') return null;
  const { first, last } = parseUidRange(text);
  if (!(first > 0 && last >= first && last < 2 ** 31)) throw new Error('must be off or a range such as 50000-59999');
  return text;
});

export function parseUidRange(range: string): { first: number; last: number } {
  const [, first, last] = /^(\d{1,10})-(\d{1,10})$/.exec(range) ?? [];
  return { first: Number(first), last: Number(last) };
}
