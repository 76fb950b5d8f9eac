/** What a setting is: one row of the table in `settings.ts`. */

/** What people are shown of a value; the others are {@link Setting.isShownAsWritten}. */
export type Shown = string | number | boolean | readonly string[] | null;

export interface Setting<T> {
  /** `--data-dir` on the command line, `data-dir` in the file. */
  readonly flag: string;
  /** Its environment variable. */
  readonly env: string;
  readonly default: T;
  readonly describe: string;
  /** Placeholder in `--help`. */
  readonly value: string;
  /** Never printed. */
  readonly secret?: boolean;
  /** Its value is made for the program; people are shown what they wrote. */
  readonly isShownAsWritten?: boolean;
  /** @throws Error saying what is expected */
  parse(text: string): T;
}

/** The variable is called as the flag is, unless all programs call it something else. */
export const setting = <T>(row: Omit<Setting<T>, 'env'> & { readonly env?: string }): Setting<T> => ({
  env: `CDP_${row.flag.toUpperCase().replaceAll('-', '_')}`,
  ...row,
});
