/**
 * Entries of the audit log as COPY takes them in its binary format (Postgres manual, COPY): Postgres has no text to read that
 * is a time or a number, and nothing has to be escaped.
 */
import type { AuditActor } from '../contract/audit.js';
import { ByteWriter } from '../postgres/results/byte-writer.js';
import { BINARY_HEADER, BINARY_TRAILER } from '../postgres/wire/rows-in.js';

/** One row. Texts must be storable: no U+0000, no lone surrogates. */
export interface AuditEntry {
  /** Milliseconds since 1970. */
  at: number;
  /** Together with `at` unlike that of any other entry; a safe integer. */
  id: number;
  requestId: string | null;
  projectId: string | null;
  project: string | null;
  actor: AuditActor;
  actorId: string | null;
  actorName: string | null;
  address: string | null;
  operation: string;
  object: string | null;
  statementSha256: string | null;
  statement: string | null;
  rows: number | null;
  outcome: string;
  status: number | null;
  durationMs: number | null;
  count: number;
}

const CELLS = 18;
const NULL = -1;

/** Milliseconds between 1970 and 2000, where Postgres counts from. */
const MS_BEFORE_2000 = 946_684_800_000;

/** Up to this length a loop writes a text faster than the call into native code does (measured on Node 20). */
const SHORT = 20;

/**
 * All columns, in the order of the statements of `audit-log.ts`.
 * @returns whoever has sent it frees it
 */
export function auditRows(entries: readonly AuditEntry[]): ByteWriter {
  const out = new ByteWriter();
  out.append(BINARY_HEADER);
  for (const entry of entries) {
    int16(out, CELLS);
    bigint(out, (entry.at - MS_BEFORE_2000) * 1000);
    bigint(out, entry.id);
    text(out, entry.requestId);
    uuid(out, entry.projectId);
    text(out, entry.project);
    text(out, entry.actor);
    text(out, entry.actorId);
    text(out, entry.actorName);
    text(out, entry.address);
    text(out, entry.operation);
    text(out, entry.object);
    text(out, entry.statementSha256);
    text(out, entry.statement);
    bigint(out, entry.rows);
    text(out, entry.outcome);
    smallint(out, entry.status);
    double(out, entry.durationMs);
    bigint(out, entry.count);
  }
  out.append(BINARY_TRAILER);
  return out;
}

function int16(out: ByteWriter, value: number): void {
  out.ensure(2);
  out.words.setInt16(out.length, value);
  out.length += 2;
}

/** The length of a cell, and room for its bytes. @returns where they begin */
function cell(out: ByteWriter, size: number): number {
  out.ensure(4 + size);
  out.words.setInt32(out.length, size);
  const at = out.length + 4;
  out.length = at + size;
  return at;
}

function nothing(out: ByteWriter): void {
  out.ensure(4);
  out.words.setInt32(out.length, NULL);
  out.length += 4;
}

/** @param value a safe integer */
function bigint(out: ByteWriter, value: number | null): void {
  if (value === null) return nothing(out);
  const at = cell(out, 8);
  out.words.setInt32(at, Math.floor(value / 2 ** 32));
  out.words.setUint32(at + 4, value);
}

function smallint(out: ByteWriter, value: number | null): void {
  if (value === null) return nothing(out);
  const at = cell(out, 2);
  out.words.setInt16(at, value);
}

function double(out: ByteWriter, value: number | null): void {
  if (value === null) return nothing(out);
  const at = cell(out, 8);
  out.words.setFloat64(at, value);
}

function uuid(out: ByteWriter, value: string | null): void {
  if (value === null) return nothing(out);
  // Like a text that is none, bytes that are too many are refused by Postgres (22P03).
  if (!UUID.test(value)) return text(out, value.padEnd(17));
  let at = cell(out, 16);
  for (let i = 0; i < value.length; i += 2) {
    if (value.charCodeAt(i) === HYPHEN) i++;
    out.bytes[at++] = (digit(value.charCodeAt(i)) << 4) | digit(value.charCodeAt(i + 1));
  }
}

/** As Postgres writes it. */
const UUID = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/;
const HYPHEN = 0x2d;

const digit = (code: number): number => (code <= 0x39 ? code - 0x30 : code - 0x57);

function text(out: ByteWriter, value: string | null): void {
  if (value === null) return nothing(out);
  const { length } = value;
  const at = cell(out, 3 * length);
  const { bytes } = out;
  let size = 0;
  if (length <= SHORT)
    while (size < length && value.charCodeAt(size) < 0x80) bytes[at + size] = value.charCodeAt(size++);
  if (size < length) size = bytes.write(value, at);
  out.words.setInt32(at - 4, size);
  out.length = at + size;
}
