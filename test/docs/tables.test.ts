/** The tables of the docs repeat the tables in the code row by row: a change to only one of them fails here. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ERROR_CODES } from '../../src/contract/errors.js';
import { LIMITS } from '../../src/contract/limits.js';
import { RECOMMENDED_SETTINGS } from '../../src/engine/servers/recommended-settings.js';
import { auditOperations, OPERATIONS } from '../../src/http/api/operations.js';
import { SETTINGS } from '../../src/settings.js';
import { anchors, read } from './markdown.js';

/**
 * The cells of a table of a page, without its head.
 * @param first cell of the head, of the page's first table by default
 * @param heading the section in which it comes first
 */
function tableOf(page: string, first = '', heading = ''): string[][] {
  const text = readFileSync(new URL(`../../docs/${page}`, import.meta.url), 'utf8');
  const [, rest = ''] = text.slice(text.indexOf(`${heading}\n\n`)).split(`\n\n| ${first}`);
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

describe('docs/api.md', () => {
  it('has the fixed limits that the service enforces, in the words of the page', () => {
    const MIB = 1024 * 1024;
    const number = (value: number) => value.toLocaleString('en-US');
    const rows = [
      ['Records in a batch', number(LIMITS.recordsPerBatch)],
      ['Body, compressed and decompressed', `${LIMITS.bodyBytes / MIB} MiB`],
      ['Nesting of JSON', `${LIMITS.jsonDepth} levels`],
      ['Columns of a table, declared through the API', number(LIMITS.columnsPerTable)],
      ['Columns of an index', number(LIMITS.columnsPerIndex)],
      ['Characters of a comment', number(LIMITS.commentCharacters)],
      ['Characters of an Idempotency-Key', number(LIMITS.idempotencyKeyCharacters)],
      ['SQL text', `${LIMITS.sqlBytes / MIB} MiB`],
      ['Statements in an SQL text', number(LIMITS.statementsPerRequest)],
      [
        'Time of a statement',
        `${LIMITS.timeoutMsDefault / 1000} s by default, ${LIMITS.timeoutMsMax / 1000} s at most`,
      ],
      ['Keys in a query for receipts', number(LIMITS.keysPerQuery)],
      ["Queries in a batch of [Neon's driver](neon.md)", number(LIMITS.queriesPerBatch)],
      ['Values in the `map` of a type change', number(LIMITS.mappedValues)],
      ['Rows of a statement', `${number(LIMITS.maxRowsDefault)} by default, ${number(LIMITS.maxRowsMax)} at most`],
      ['Bytes of all rows of a response', `${LIMITS.resultBytes / MIB} MiB`],
      ['Bytes of one row', `${LIMITS.resultBytes / MIB} MiB`],
    ];
    const limits = tableOf('api.md', 'What ').map(([what, limit]) => [what, limit]);
    expect(limits).toEqual(expect.arrayContaining(rows));
  });

  /** The operation of a row: its method and its path, with the parameters by their place. */
  const titleOf = (method: string, path: string) => `${method} ${path.replace(/:\w+|\{\w+\}/g, '{}')}`;
  const titlesOf = (cell: string) =>
    Array.from(cell.matchAll(/`([A-Z]+) (\/[^`?]+)[^`]*`/g), ([, method = '', path = '']) => titleOf(method, path));
  const operations = OPERATIONS.map(({ method, url, access, success: { status } }) => ({
    title: titleOf(method, url),
    access,
    status: String(status),
  }));

  it('has each operation of a project with its scope and status, a link to its section, and no others', () => {
    const rows = tableOf('api.md', 'Operation ');
    expect(rows.pop()?.slice(0, 2)).toEqual(['[`/api/cdp/admin/…`](#projects-and-tokens)', 'an admin token']);
    const shown = rows.map(([cell = '', scopes = '', status]) => ({ titles: titlesOf(cell), scopes, status }));
    const declared = operations
      .filter(({ access }) => access !== 'admin')
      .map(({ title, access, status }) => {
        const scopes = access === 'any' ? 'any' : [access].flat().map((scope) => `\`${scope}\``);
        return { titles: [title], scopes: [scopes].flat().join(' or '), status };
      });
    expect(byTitle(shown)).toEqual(byTitle(declared));
    const page = read('docs/api.md');
    for (const [cell = ''] of rows) {
      const [, target = ''] = /\]\(([^)]+)\)/.exec(cell) ?? [];
      const [file = '', anchor] = target.split('#');
      if (anchor === undefined) expect(() => read(`docs/${file}`)).not.toThrow();
      else expect(anchors(page)).toContain(anchor);
    }
  });

  it('has each operation for an admin token with its status, and no others', () => {
    const rows = tableOf('api.md', 'Operation ', '\n## Projects and tokens');
    const shown = rows.map(([cell = '', text = '']) => ({ titles: titlesOf(cell), status: text.slice(0, 3) }));
    const declared = operations
      .filter(({ access }) => access === 'admin')
      .map(({ title, status }) => ({ titles: [title], status }));
    expect(byTitle(shown)).toEqual(byTitle(declared));
  });

  const byTitle = <T extends { titles: string[] }>(rows: readonly T[]): T[] =>
    [...rows].sort((one, other) => String(one.titles).localeCompare(String(other.titles)));
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

describe('docs/monitoring.md', () => {
  it('has each word of the audit log once, and no others, and which of them `changes` omits', () => {
    const words = tableOf('monitoring.md', 'Operations ').flatMap(([operations = '', omitted = '']) =>
      [...operations.matchAll(/`([a-z_.]+)`/g)]
        .map(([, word]) => [word, omitted === ''] as const)
        .filter(([word]) => word !== 'count'),
    );
    expect(words.sort()).toEqual([...auditOperations(OPERATIONS)].sort());
  });
});

describe('docs/operations.md', () => {
  it('has each recommended Postgres setting with its value and reason, as in cdp doctor', () => {
    const rows = RECOMMENDED_SETTINGS.map(({ name, value, otherwise }) => [`\`${name}=${value}\``, otherwise]);
    expect(tableOf('operations.md', 'Setting ')).toEqual(rows);
  });
});

describe('CONTRIBUTING.md', () => {
  it('shows the declaration of the operation that a test adds', () => {
    const [, shown = ''] = /```ts\n([^]*?)```/.exec(read('CONTRIBUTING.md')) ?? [];
    expect(shown).not.toBe('');
    expect(read('test/http/operations/added-operation.test.ts')).toContain(shown);
  });
});
