/** How to write the values of a Postgres type in a response. */

export const TEXT_FORMAT = 0;
export const BINARY_FORMAT = 1;

interface Common {
  /**
   * How `assembly/cells.ts` writes the values. It leaves `OTHER`, and rare values of other kinds, to the functions of
   * the encoder. For an array, these are those of its elements.
   */
  readonly kind: number;
  /** Converts the plain text to JSON. */
  readonly json: (plain: string) => string;
}

/** For values that Postgres sends as text; `plain` converts that to the text of CSV. */
interface TextTypeEncoder extends Common {
  readonly format: typeof TEXT_FORMAT;
  readonly plain: (text: string) => string;
}

/** For values that Postgres sends in its binary format. */
interface BinaryTypeEncoder extends Common {
  readonly format: typeof BINARY_FORMAT;
  readonly plain: (bytes: Buffer) => string;
}

/** `format` is the format code for Bind (Postgres manual, Message Formats). */
export type TypeEncoder = TextTypeEncoder | BinaryTypeEncoder;

/** A value as text for CSV, before quoting. */
export function plainText(encoder: TypeEncoder, bytes: Buffer): string {
  return encoder.format === TEXT_FORMAT ? encoder.plain(bytes.toString()) : encoder.plain(bytes);
}

/** For text that is already JSON, or needs no escapes. */
export const asIs = (text: string): string => text;
export const inQuotes = (text: string): string => `"${text}"`;

/** The sender violates Postgres's protocol. */
export class MalformedRow extends Error {
  constructor() {
    super('A row from Postgres does not have the form that its protocol describes');
    this.name = 'MalformedRow';
  }
}
