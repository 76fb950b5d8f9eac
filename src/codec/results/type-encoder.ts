/** How the values of one Postgres type get into an answer. */

export const TEXT_FORMAT = 0;
export const BINARY_FORMAT = 1;

interface Common {
  /** Who writes the values: `assembly/cells.ts`, by one of its kinds, or, for `OTHER` and what that leaves, these functions. */
  readonly kind: number;
  /** Makes JSON of the plain text. */
  readonly json: (plain: string) => string;
}

/** Of values that Postgres sends as text: `plain` makes of that what stands in CSV. */
interface TextEncoder extends Common {
  readonly format: typeof TEXT_FORMAT;
  readonly plain: (text: string) => string;
}

/** Of values that Postgres sends in its binary format. */
interface BinaryEncoder extends Common {
  readonly format: typeof BINARY_FORMAT;
  readonly plain: (bytes: Buffer) => string;
}

/** `format` is the code for Bind (Postgres manual 54.7). */
export type TypeEncoder = TextEncoder | BinaryEncoder;

/** A value as it stands in CSV, not yet quoted. */
export function plainText(encoder: TypeEncoder, bytes: Buffer): string {
  return encoder.format === TEXT_FORMAT ? encoder.plain(bytes.toString()) : encoder.plain(bytes);
}

/** Already JSON, or free of characters to escape. */
export const asIs = (text: string): string => text;
export const inQuotes = (text: string): string => `"${text}"`;

/** The sender does not speak Postgres's protocol. */
export class MalformedRow extends Error {
  constructor() {
    super('A row from Postgres is not of the form that its protocol describes');
    this.name = 'MalformedRow';
  }
}
