/** A chunk of a stream: whole records, stored in one transaction. */
import { type BatchEncoder, type EncodedBatch, readLines, type RecordBatch, type Steps } from '../../../codec/index.js';
import type { EngineError, ErrorDetail } from '../../../contract/errors.js';
import type { RecordsBody } from '../batch.js';

const LINE_FEED = 0x0a;
const SPACE = 0x20;

/** Records cut from the beginning of some bytes. */
export interface Cut {
  /** Where the next record begins. */
  readonly end: number;
  /** One record a line, as JSON; lines may be blank. */
  readonly text: Buffer;
  /** By record: its line in the stream, and its first byte in those from which it was cut. */
  readonly lines: readonly number[];
  readonly offsets: readonly number[];
  /** By record: what is wrong with it that its JSON does not show, and what to keep of it. */
  readonly problems: ReadonlyMap<number, Problem>;
}

export interface Problem {
  readonly detail: Omit<ErrorDetail, 'record'>;
  /** JSON. */
  readonly kept: string;
}

export class Chunk implements RecordsBody {
  private prepared: { readonly encoder: BatchEncoder; readonly encoded: EncodedBatch | null } | null = null;

  /**
   * @param start of its range in the decoded body
   * @param base what the offsets of the cut count from
   * @param sha256 of its range, hex; null: it was not computed
   */
  constructor(
    readonly start: number,
    readonly end: number,
    private readonly base: number,
    private readonly cut: Cut,
    readonly isLast: boolean,
    readonly sha256: string | null,
  ) {}

  get recordCount(): number {
    return this.cut.lines.length;
  }

  /** Encodes it in advance, while another chunk is stored. */
  prepare(encoder: BatchEncoder): void {
    this.prepared = { encoder, encoded: this.encode(encoder) };
  }

  encode(encoder: BatchEncoder): EncodedBatch | null {
    const { prepared, cut } = this;
    this.prepared = null;
    if (prepared?.encoder === encoder) return prepared.encoded;
    prepared?.encoded?.free();
    return cut.problems.size > 0 ? null : encoder.encodeLines(cut.text, this.recordCount);
  }

  *read(options?: { apart: boolean }): Steps<RecordBatch> {
    const { text, problems } = this.cut;
    const batch = yield* readLines(linesIn(text), options);
    for (const [record, { detail }] of problems) {
      const message = `Record ${record}: ${detail.message}`;
      batch.errorsOf(record).add(detail.error, () => ({ ...detail, record, message }));
    }
    return { ...batch, textOf: (record) => problems.get(record)?.kept ?? batch.textOf(record) };
  }

  /** The error with places in the stream, instead of numbers of records. */
  placed(error: EngineError): EngineError {
    const { message, errors, hint, redacted } = error;
    return error.with({
      message: this.inLines(message),
      errors: errors?.map((detail) => this.placedDetail(detail)),
      hint: hint && this.inLines(hint),
      redacted: redacted && { ...redacted, message: this.inLines(redacted.message) },
    });
  }

  placedDetail({ record, redacted, hint, ...detail }: ErrorDetail): ErrorDetail {
    const { lines, offsets } = this.cut;
    const place = record === undefined ? {} : { line: lines[record] ?? 0, offset: this.base + (offsets[record] ?? 0) };
    return {
      ...place,
      ...detail,
      message: this.inLines(detail.message),
      ...(hint === undefined ? {} : { hint: this.inLines(hint) }),
      ...(redacted === undefined ? {} : { redacted: { ...redacted, message: this.inLines(redacted.message) } }),
    };
  }

  private inLines(text: string): string {
    return text.replace(/^Record (\d+)/, (_, record: string) => `Line ${this.cut.lines[Number(record)]}`);
  }
}

/** The lines that are not blank. */
function linesIn(text: Buffer): Buffer[] {
  const lines: Buffer[] = [];
  for (let at = 0; at < text.length;) {
    const end = lineEnd(text, at);
    if (!isBlank(text, at, end)) lines.push(text.subarray(at, end));
    at = end + 1;
  }
  return lines;
}

function lineEnd(text: Buffer, from: number): number {
  const end = text.indexOf(LINE_FEED, from);
  return end === -1 ? text.length : end;
}

export function isBlank(text: Buffer, from: number, to: number): boolean {
  while (from < to && (text[from] as number) <= SPACE && isSpace(text[from] as number)) from++;
  return from === to;
}

/** White space of JSON. */
const isSpace = (byte: number): boolean => byte === SPACE || byte === 0x09 || byte === 0x0d || byte === LINE_FEED;
