/** Identifiers of people: how two texts are the same one, and what a receipt commits to. The same in SQL and JavaScript. */

/** Versioned: hashes and receipts of earlier days must stay comparable. */
export const NORMALIZATIONS = ['exact-1', 'caseless-1'] as const;
export type Normalization = (typeof NORMALIZATIONS)[number];

/** States of an erasure. `cleaning`: the person is erased, and the space is being freed. */
export const ERASURE_STATES = ['running', 'cleaning', 'done', 'failed'] as const;
export type ErasureState = (typeof ERASURE_STATES)[number];

/** `caseless-1` is `_cdp.caseless_1` of migration 021 of projects: ASCII lower case, trimmed, NFC. */
export const normalized = (text: string, normalization: Normalization): string =>
  normalization === 'exact-1'
    ? text
    : text
        .replace(/[A-Z]/g, (letter) => letter.toLowerCase())
        .replace(/^[ \t\n\r\f\v]+|[ \t\n\r\f\v]+$/g, '')
        .normalize('NFC');

/** What a receipt commits to with HMAC-SHA-256 under its nonce. @param value normalised */
export const committedText = (kind: string, identifier: string, value: string): string =>
  [kind, identifier, value].join('\0');

/** `events`, or `archive.events` in a schema of the project's own. */
export const SUBJECT_TABLE_PATTERN = '^(?:[^."\\u0000]{1,63}\\.)?[^."\\u0000]{1,63}$';
export const SUBJECT_NAME_PATTERN = '^[a-z][a-z0-9_]{0,62}$';
