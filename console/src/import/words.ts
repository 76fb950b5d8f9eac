/** Labels in the console for options of `cdp import` that advice mentions. */
const LABELS: Readonly<Record<string, string>> = {
  columns: 'First line',
  dates: 'Dates',
  decimal: 'Decimals',
  delimiter: 'Delimiter',
  encoding: 'Encoding',
  escape: 'Escape in quotes',
  flatten: 'Nested objects as columns',
  format: 'Format',
  'no-quotes': 'Quotes are text',
  null: 'Also NULL',
  rename: 'Column',
  restart: 'Discard',
  skip: 'Import',
  sheet: 'Sheet',
  'skip-lines': 'Lines to skip',
  thousands: 'Thousands',
  types: 'Type',
};

/** Turns `--dates dmy` into `“Dates” dmy`, and the advice to take another type into what is done beside it. */
export const inConsole = (advice: string): string =>
  advice.replace(/(\w+) with --types\b/g, 'choose $1').replace(/--([a-z][a-z-]*)/g, (flag, name: string) => {
    const label = LABELS[name];
    return label === undefined ? flag : `“${label}”`;
  });
