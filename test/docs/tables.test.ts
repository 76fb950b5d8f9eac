/** The tables of the docs repeat the tables in the code row by row: a change to only one of them fails here. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { AUDIT_OPERATIONS } from '../../src/contract/audit.js';
import { ERROR_CODES } from '../../src/contract/errors.js';
import { RECOMMENDED_SETTINGS } from '../../src/engine/servers/recommended-settings.js';
import { SETTINGS } from '../../src/settings.js';

/**
 * The cells of a table of a page, without its head; @param first cell of the head, of the page's only table by default
 */
function tableOf(page: string, first = ''): string[][] {
  const text = readFileSync(new URL(`../../docs/${page}`, import.meta.url), 'utf8');
  const [, rest = ''] = text.split(`\n\n| ${first}`);
  const rows = `| ${rest.split('\n\n', 1)[0]}`.split('\n').filter((line) => line.startsWith('|'));
  return rows.slice(2).map((line) =>
    line
      .slice(1, -1)
      .split(' | ')
      .map((cell) => cell.trim()),
  );
}

describe('docs/errors.md', () => {
  it('has each code with its status, its meaning and what to do, and no others', () => {
    const rows = Object.entries(ERROR_CODES).map(([code, { status, meaning, action }]) => [
      `\`${code}\``,
      String(status),
      meaning,
      action,
    ]);
    expect(tableOf('errors.md')).toEqual(rows);
  });
});

describe('docs/settings.md', () => {
  it('has each setting with its flag, variable, default and description, and no others', () => {
    // Those that are lists or objects are none by default, except those whose description says what is used.
    const shown = (preset: unknown, description: string) => {
      if (['string', 'number', 'boolean'].includes(typeof preset)) return `\`${preset as string}\``;
      return description.includes(' Default: ') ? 'as described' : 'none';
    };
    const rows = Object.values(SETTINGS).map(({ flag, value, env, default: preset, describe: description }) => [
      `\`--${flag} ${value}\``,
      `\`${env}\``,
      shown(preset, description),
      description,
    ]);
    expect(tableOf('settings.md')).toEqual(rows);
  });
});

describe('docs/operations.md', () => {
  it('has each word of the audit log once, and no others', () => {
    const cells = tableOf('operations.md', 'Operations ').map(([operations]) => operations ?? '');
    const words = cells.flatMap((cell) => [...cell.matchAll(/`([a-z_.]+)`/g)].map(([, word]) => word));
    expect(words.filter((word) => word !== 'count').sort()).toEqual([...AUDIT_OPERATIONS].sort());
  });

  it('has each recommended Postgres setting with its value and reason, as in cdp doctor', () => {
    const rows = RECOMMENDED_SETTINGS.map(({ name, value, otherwise }) => [`\`${name}=${value}\``, otherwise]);
    expect(tableOf('operations.md', 'Setting ')).toEqual(rows);
  });
});
