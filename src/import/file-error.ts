/** An error that a user can fix, in the file or in the options. */
export class FileError extends Error {
  /** @param hint what to do, in terms of the options of `cdp import` */
  constructor(
    message: string,
    readonly hint?: string,
  ) {
    super(message);
  }
}
