/** Rows on their way into a table. */
import { COPY_DONE, copyDataHeader } from './messages.js';

/** Rows for COPY … FROM STDIN; or one row in COPY's binary format, for an INSERT with a parameter for each of its cells. */
export type RowsIn =
  | { readonly copy: string; readonly data: readonly Uint8Array[] }
  | { readonly insert: string; readonly row: Uint8Array };

/** The messages behind `COPY … FROM STDIN` that bring its rows. */
export function copyMessages(data: readonly Uint8Array[]): Uint8Array[] {
  const length = data.reduce((sum, part) => sum + part.length, 0);
  return [copyDataHeader(length), ...data, COPY_DONE];
}
