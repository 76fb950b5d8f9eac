/** Patterns of texts in requests, and their descriptions for errors. */
import { SUBJECT_NAME_PATTERN, SUBJECT_TABLE_PATTERN } from './subjects.js';
import { NAME_IN_WORDS, NAME_PATTERN, PROJECT_NAME_IN_WORDS, PROJECT_NAME_PATTERN } from './names.js';

/** The number of entries per page, in a query string. */
export const PAGE_LIMIT = '^([1-9][0-9]{0,2}|1000)$';
export const CODE = '^[a-z_]{1,40}$';
export const ANY_TEXT = '^[^\\u0000]+$';
export const SHORT_TEXT = '^[^\\u0000]{1,200}$';
export const PRINTABLE_ASCII = '^[\\x20-\\x7e]+$';
export const AUDIT_ID = '^[0-9]{1,15}-[0-9]{1,16}$';
/** Where an instance reads the URL of a Postgres server. */
export const URL_REFERENCE = '^(env:[A-Za-z_][A-Za-z0-9_]*|file:/[^\\u0000]+)$';
/** A key or value of a label. */
export const LABEL = '^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$';
/** The origin of a page, as browsers send it. */
export const ORIGIN = '^https?://[^/?#@*\\s\\u0000]+$';
export const BYTE_OFFSET = '^[0-9]{1,15}$';
export const UNKNOWN_FIELDS = '^(ignore|into:[^\\u0000]{1,200})$';
export const DAY = '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$';
export const MONTH = '^[0-9]{4}-(0[1-9]|1[0-2])$';
/** A day and the id of a project: where a page of usage ends. */
export const USAGE_PLACE = '^[0-9]{4}-[0-9]{2}-[0-9]{2}_[0-9a-f-]{36}$';
/** A cursor of a feed: its log, a position in hexadecimal, a number, and perhaps numbers of transactions. */
export const CURSOR_PATTERN = '^[0-9a-f]{8}\\.[0-9a-f]{1,16}\\.[0-9]{1,10}(\\.[0-9]{1,10}(-[0-9]{1,10}){0,999})?$';
/** Of changes. */
export const CHANGES_LIMIT = '^([1-9][0-9]{0,3}|10000)$';
export const WAIT_SECONDS = '^([0-9]|[1-5][0-9]|60)$';
export const ABSOLUTE_PATH = '^/[^\\u0000]*$';

const IN_WORDS: Readonly<Record<string, string>> = {
  [PAGE_LIMIT]: 'a whole number from 1 to 1000',
  [CODE]: '1 to 40 lowercase letters and underscores',
  [ANY_TEXT]: 'at least one character, and must not contain U+0000',
  [SHORT_TEXT]: '1 to 200 characters, without U+0000',
  [PRINTABLE_ASCII]: 'printable ASCII characters',
  [AUDIT_ID]: 'the id of an entry, such as "1769851800000-1"',
  [URL_REFERENCE]: 'env:NAME, with the name of an environment variable, or file:/PATH',
  [LABEL]: '1 to 63 ASCII letters, digits and ". _ / -", the first one a letter or digit',
  [ORIGIN]: 'an origin such as https://shop.example.com, without a path',
  [BYTE_OFFSET]: 'a whole number of bytes',
  [UNKNOWN_FIELDS]: 'either "ignore", or "into:" and the name of a column',
  [DAY]: 'a day such as 2026-11-30',
  [MONTH]: 'a month such as 2026-11',
  [USAGE_PLACE]: 'the `next` of a page',
  [CURSOR_PATTERN]: 'a cursor, as an answer had it',
  [CHANGES_LIMIT]: 'a whole number from 1 to 10000',
  [WAIT_SECONDS]: 'a whole number of seconds from 0 to 60',
  [SUBJECT_NAME_PATTERN]: '1 to 63 lowercase ASCII letters, digits and underscores, the first one a letter',
  [SUBJECT_TABLE_PATTERN]: 'the name of a table, with its schema if that is not the own one of the project',
  [ABSOLUTE_PATH]: 'an absolute path',
  [NAME_PATTERN]: NAME_IN_WORDS,
  [PROJECT_NAME_PATTERN]: PROJECT_NAME_IN_WORDS,
};

/** Describes what a text must be; undefined for other patterns. */
export const patternInWords = (pattern: string): string | undefined => IN_WORDS[pattern];

/** UUIDs as text. */
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export const isUuid = (text: string): boolean => UUID.test(text);
