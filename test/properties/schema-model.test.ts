/**
 * Sequences of schema changes and inserts, with each response compared with that of a model of a few lines (contract
 * C4, C6, C7).
 */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { COLUMN_TYPES, type ColumnType } from '../../src/contract/column-types.js';
import { startTestService, type TestResponse, type TestProject, type TestService } from '../support/service.js';
import { columnPath, TABLE, tablePath } from '../support/tables.js';
import { checkClear, parameters } from './run.js';

let service: TestService;
let real: TestProject;
beforeAll(async () => {
  service = await startTestService();
  real = await service.project();
});
afterAll(() => service.close());

interface ModelTable {
  columns: Map<string, ColumnType>;
  rows: number;
  /** Columns that hold a value that is not NULL. */
  filled: Set<string>;
  /** Those whose values a change of type has made something else than VALUE. */
  changed: Set<string>;
}
type Model = Map<string, ModelTable>;

const NAMES = ['a', 'B', 'b', 'Ab', 'aB', 'select', 'id', 'ctid', '_cdp_x', '1x', '__proto__'];
const name = fc.constantFrom(...NAMES);
const type = fc.constantFrom(...COLUMN_TYPES);
const isBad = (text: string): boolean => ['id', 'ctid', '_cdp_x', '1x'].includes(text);
/** A path with it names nothing, whatever the rest of the request says. */
const isNowhere = (text: string): boolean => text === '1x';
const isBadTable = (text: string): boolean => ['_cdp_x', '1x'].includes(text);
const twin = (names: Iterable<string>, text: string, except?: string): boolean =>
  [...names].some((other) => other !== except && other.toLowerCase() === text.toLowerCase());

/** The six types have one value that each of them takes from a record. */
const VALUE: Record<ColumnType, unknown> = {
  TEXT: 'x',
  INTEGER: 1,
  FLOAT: 0.5,
  BOOLEAN: true,
  TIMESTAMP: '2024-01-01',
  JSONB: { a: 1 },
};
/** Where VALUE survives the change (contract C7.1). */
const SURVIVES: Record<ColumnType, readonly ColumnType[]> = {
  TEXT: ['TEXT'],
  INTEGER: ['INTEGER', 'TEXT', 'FLOAT', 'BOOLEAN', 'JSONB'],
  FLOAT: ['FLOAT', 'TEXT', 'JSONB'],
  BOOLEAN: ['BOOLEAN', 'TEXT', 'INTEGER', 'FLOAT', 'JSONB'],
  TIMESTAMP: ['TIMESTAMP', 'TEXT', 'JSONB'],
  JSONB: ['JSONB', 'TEXT'],
};

/** Types that never change into one another (contract C7.1), whatever a column holds. */
const NEVER: Partial<Record<ColumnType, readonly ColumnType[]>> = {
  INTEGER: ['TIMESTAMP'],
  FLOAT: ['BOOLEAN', 'TIMESTAMP'],
  BOOLEAN: ['TIMESTAMP'],
  TIMESTAMP: ['INTEGER', 'FLOAT', 'BOOLEAN'],
};

/** A call with what the model says of it: the statuses it may have, and what it changes where it succeeds. */
class Step implements fc.AsyncCommand<Model, TestProject> {
  constructor(
    readonly label: string,
    readonly send: (project: TestProject) => Promise<TestResponse>,
    readonly foresee: (model: Model) => number | readonly number[],
    readonly apply: (model: Model) => void,
  ) {}
  check = (): boolean => true;
  toString = (): string => this.label;
  async run(model: Model, project: TestProject): Promise<void> {
    const statuses = [this.foresee(model)].flat();
    const response = await this.send(project);
    checkClear(response);
    const asForeseen = statuses.includes(response.status);
    expect([this.label, statuses, response.text, asForeseen]).toEqual([this.label, statuses, response.text, true]);
    if (response.status < 300) this.apply(model);
  }
}

const create = fc.tuple(name, fc.array(fc.tuple(name, type), { minLength: 1, maxLength: 3 })).map(
  ([table, columns]) =>
    new Step(
      `create ${table} (${columns.join('; ')})`,
      (project) =>
        project.call('POST', TABLE, {
          body: { table_name: table, columns: columns.map(([column, of]) => ({ name: column, type: of })) },
        }),
      (model) => {
        const names = columns.map(([column]) => column);
        if (isBadTable(table) || names.some(isBad) || names.some((text, i) => twin(names.slice(0, i), text)))
          return 400;
        // A primary key is an index, and shares the names of tables.
        return twin(model.keys(), table) ? 409 : 201;
      },
      (model) => model.set(table, { columns: new Map(columns), rows: 0, filled: new Set(), changed: new Set() }),
    ),
);
const drop = name.map(
  (table) =>
    new Step(
      `drop ${table}`,
      (project) => project.call('DELETE', tablePath(table)),
      (model) => (model.has(table) ? 200 : 404),
      (model) => model.delete(table),
    ),
);
const add = fc.tuple(name, name, type).map(
  ([table, column, of]) =>
    new Step(
      `add ${table}.${column} ${of}`,
      (project) => project.call('POST', `${tablePath(table)}/column`, { body: { name: column, type: of } }),
      (model) => {
        if (isNowhere(table)) return 404;
        if (isBad(column)) return 400;
        const found = model.get(table);
        return found === undefined ? 404 : twin(found.columns.keys(), column) ? 409 : 201;
      },
      (model) => model.get(table)?.columns.set(column, of),
    ),
);
const dropColumn = fc.tuple(name, name).map(
  ([table, column]) =>
    new Step(
      `drop ${table}.${column}`,
      (project) => project.call('DELETE', columnPath(table, column)),
      (model) => (isNowhere(table) ? 404 : column === 'id' ? 400 : model.get(table)?.columns.has(column) ? 200 : 404),
      (model) => {
        model.get(table)?.columns.delete(column);
        model.get(table)?.filled.delete(column);
        model.get(table)?.changed.delete(column);
      },
    ),
);
const alter = fc.tuple(name, name, fc.option(name, { nil: undefined }), fc.option(type, { nil: undefined })).map(
  ([table, column, to, of]) =>
    new Step(
      `alter ${table}.${column} to ${to} ${of}`,
      (project) =>
        project.call('PUT', columnPath(table, column), {
          body: { ...(to === undefined ? {} : { new_name: to }), ...(of === undefined ? {} : { new_type: of }) },
        }),
      (model) => {
        if (isNowhere(table)) return 404;
        if (to === undefined && of === undefined) return 400;
        if (column === 'id' || (to !== undefined && isBad(to))) return 400;
        const found = model.get(table);
        const from = found?.columns.get(column);
        if (found === undefined || from === undefined) return 404;
        const isTaken = to !== undefined && twin(found.columns.keys(), to, column);
        if (of !== undefined && NEVER[from]?.includes(of)) return 409;
        if (of === undefined || of === from || !found.filled.has(column)) return isTaken ? 409 : 200;
        if (found.changed.has(column)) return isTaken ? 409 : [200, 409];
        return isTaken || !SURVIVES[from].includes(of) ? 409 : 200;
      },
      (model) => {
        const found = model.get(table);
        const entries = [...(found?.columns ?? [])];
        if (found === undefined) return;
        found.columns = new Map(
          entries.map(([text, old]) => (text === column ? [to ?? text, of ?? old] : [text, old])),
        );
        const name = to ?? column;
        const from = new Map(entries).get(column);
        if (found.changed.delete(column)) found.changed.add(name);
        if (found.filled.delete(column)) {
          found.filled.add(name);
          if (of !== undefined && of !== from) found.changed.add(name);
        }
      },
    ),
);
const clear = name.map(
  (table) =>
    new Step(
      `clear ${table}`,
      (project) => project.call('POST', '/api/cdp/sql', { body: { sql: `DELETE FROM "${table}"` } }),
      (model) => (model.has(table) ? 200 : 400),
      (model) => {
        const found = model.get(table);
        if (found !== undefined) Object.assign(found, { rows: 0, filled: new Set(), changed: new Set() });
      },
    ),
);

/** Inserts into whatever the table has, and looks at it. */
class Insert implements fc.AsyncCommand<Model, TestProject> {
  constructor(
    readonly table: string,
    readonly query: string,
  ) {}
  check = (): boolean => true;
  toString = (): string => `insert ${this.table}${this.query}`;
  async run(model: Model, project: TestProject): Promise<void> {
    const found = model.get(this.table);
    const columns = [...(found?.columns ?? [])];
    const record = `{${columns.map(([column, of]) => `${JSON.stringify(column)}:${JSON.stringify(VALUE[of])}`).join()}}`;
    const response = await project.call('POST', `/api/cdp/data/${encodeURIComponent(this.table)}${this.query}`, {
      body: `[${record},{}]`,
    });
    checkClear(response);
    expect([response.status, response.text]).toEqual([found === undefined ? 404 : 201, response.text]);
    if (found === undefined) return;
    found.rows += 2;
    for (const [column] of columns) found.filled.add(column);
    expect(await project.rows(`SELECT count(*) AS n FROM "${this.table}"`)).toEqual([{ n: found.rows }]);
  }
}
const insert = fc.tuple(name, fc.constantFrom('', '?return=ids')).map((parts) => new Insert(...parts));

/** What the service shows is the model. */
class Look implements fc.AsyncCommand<Model, TestProject> {
  check = (): boolean => true;
  toString = (): string => 'look';
  async run(model: Model, project: TestProject): Promise<void> {
    const { body } = await project.call('GET', '/api/cdp/schema');
    const tables = body.tables as { name: string; columns: { name: string; type: string }[] }[];
    const shown = tables.map(
      (table) => [table.name, table.columns.slice(1).map((column) => [column.name, column.type])] as const,
    );
    const byName = (a: readonly [string, unknown], b: readonly [string, unknown]) => (a[0] < b[0] ? -1 : 1);
    expect([...shown].sort(byName)).toEqual(
      [...model].map(([table, { columns }]) => [table, [...columns]] as const).sort(byName),
    );
  }
}

it('answers as the model predicts', async () => {
  const commands = fc.commands(
    [create, create, create, drop, add, add, dropColumn, alter, alter, clear, insert, insert, fc.constant(new Look())],
    { maxCommands: 40, size: '+1' },
  );
  await fc.assert(
    fc.asyncProperty(commands, async (steps) => {
      const left = (await real.call('GET', '/api/cdp/schema')).body.tables as { name: string }[];
      for (const table of left) await real.call('DELETE', tablePath(table.name));
      await fc.asyncModelRun(() => ({ model: new Map() as Model, real }), [...steps, new Look()]);
    }),
    parameters(25),
  );
});
