/** What the options of `cdp import`, which advice names, are called in the console. */
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
  'skip-lines': 'Lines to skip',
  thousands: 'Thousands',
  types: 'Type',
};

/** `--dates dmy` as `“Dates” dmy`. */
export const inConsole = (advice: string): string =>
  advice.replace(/--([a-z][a-z-]*)/g, (flag, name: string) => {
    const label = LABELS[name];
    return label === undefined ? flag : `“${label}”`;
  });
