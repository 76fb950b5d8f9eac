/** The tables of the docs repeat the tables of the code, row by row: a change of one without the other fails here. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { SETTINGS } from '../../src/settings.js';
import { ERROR_CODES } from '../../src/contract/errors.js';

/** The cells of the only table of a page, without its head. */
function tableOf(page: string): string[][] {
  const text = readFileSync(new URL(`../../docs/${page}`, import.meta.url), 'utf8');
  const rows = text.split('\n').filter((line) => line.startsWith('|'));
  return rows.slice(2).map((line) =>
    line
      .slice(1, -1)
      .split(' | ')
      .map((cell) => cell.trim()),
  );
}

describe('docs/errors.md', () => {
  it('has each code with its status, its meaning and what to do, and no other', () => {
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
  it('has each setting with its flag, variable, default and description, and no other', () => {
    const rows = Object.values(SETTINGS).map(({ flag, value, env, default: preset, describe: description }) => [
      `\`--${flag} ${value}\``,
      `\`${env}\``,
      String(preset ?? '') === '' ? 'none' : `\`${String(preset)}\``,
      description,
    ]);
    expect(tableOf('settings.md')).toEqual(rows);
  });
});
