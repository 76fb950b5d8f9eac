/** An error that a person can fix: in the file, or in the options. */
export class FileError extends Error {
  /** @param hint what to do, with the options of `cdp import` */
  constructor(
    message: string,
    readonly hint?: string,
  ) {
    super(message);
  }
}
