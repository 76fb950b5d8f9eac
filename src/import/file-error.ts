/** Something that a person can mend: in the file, or in how it is to be read. */
export class FileError extends Error {
  /** @param hint what to do, with the options of `cdp import` */
  constructor(
    message: string,
    readonly hint?: string,
  ) {
    super(message);
  }
}
