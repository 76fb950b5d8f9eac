/** The one error of the import for what a person can correct: the file or the options. */
export class InputError extends Error {
  constructor(
    message: string,
    readonly hint?: string,
  ) {
    super(message);
  }
}
