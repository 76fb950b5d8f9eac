/** The schema routes of one project, for tests. */
import { onServer, type TestProject, type TestResponse, type TestService } from './service.js';

export const TABLE = '/api/cdp/schema/table';
export const tablePath = (name: string): string => `${TABLE}/${encodeURIComponent(name)}`;
export const columnPath = (table: string, name: string): string =>
  `${tablePath(table)}/column/${encodeURIComponent(name)}`;
export const indexPath = (table: string, name: string): string =>
  `${tablePath(table)}/index/${encodeURIComponent(name)}`;

export interface ShownTable {
  name: string;
  comment: string | null;
  columns: { name: string; type: string; comment: string | null; not_null?: true; default?: string }[];
}

let counter = 0;

/** A name for a table that no other has. */
export const freshName = (): string => `t${++counter}`;

export class Tables {
  constructor(readonly project: TestProject) {}

  create = (body: unknown): Promise<TestResponse> => this.project.call('POST', TABLE, { body });
  add = (table: string, body: unknown): Promise<TestResponse> =>
    this.project.call('POST', `${tablePath(table)}/column`, { body });
  alter = (table: string, column: string, body: unknown): Promise<TestResponse> =>
    this.project.call('PUT', columnPath(table, column), { body });
  alterTable = (table: string, body: unknown): Promise<TestResponse> =>
    this.project.call('PUT', tablePath(table), { body });
  drop = (table: string): Promise<TestResponse> => this.project.call('DELETE', tablePath(table));
  dropColumn = (table: string, column: string): Promise<TestResponse> =>
    this.project.call('DELETE', columnPath(table, column));

  createIndex = (table: string, body: unknown): Promise<TestResponse> =>
    this.project.call('POST', `${tablePath(table)}/index`, { body });
  dropIndex = (table: string, name: string): Promise<TestResponse> =>
    this.project.call('DELETE', indexPath(table, name));
  indexes = async (table: string): Promise<unknown> =>
    (await this.project.call('GET', `${tablePath(table)}/index`)).body.indexes;

  /** A new table; returns its name. */
  async fresh(columns: Record<string, string>): Promise<string> {
    const name = freshName();
    await this.project.table(name, columns);
    return name;
  }

  /** Inserts what must succeed; returns the ids. */
  async insert(table: string, records: unknown): Promise<string[]> {
    const response = await this.project.call('POST', `/api/cdp/data/${table}?return=ids`, { body: records });
    if (response.status !== 201) throw new Error(response.text);
    return response.body.ids as string[];
  }

  /** A table as the API shows it. */
  async read(table: string): Promise<ShownTable> {
    return (await this.project.call('GET', tablePath(table))).body.table as ShownTable;
  }

  async column(table: string, name: string): Promise<ShownTable['columns'][number] | undefined> {
    return (await this.read(table)).columns.find((column) => column.name === name);
  }
}

/** The types of a table's columns by name, as Postgres writes them. */
export async function columnTypes(project: TestProject, table: string): Promise<Record<string, unknown>> {
  const columns = await project.rows(`SELECT attname AS name, format_type(atttypid, NULL) AS type FROM pg_attribute
    WHERE attrelid = '${table}'::regclass AND attnum > 0`);
  return Object.fromEntries(columns.map(({ name, type }) => [String(name), type]));
}

/** As the superuser in the project's own database, not through the service. */
export async function inDatabase<T>(
  { engine, server }: TestService,
  { name }: TestProject,
  work: Parameters<typeof onServer<T>>[1],
): Promise<T> {
  const project = await engine.control.projects.find('name', name);
  return onServer(server, work, project?.placement.database);
}

/** From now on no COMMENT succeeds in the project's database: the last part of a change fails. */
export async function refuseComments(service: TestService, project: TestProject): Promise<void> {
  await inDatabase(service, project, async (client) => {
    await client.query(`CREATE FUNCTION data.refuse() RETURNS event_trigger LANGUAGE plpgsql
      AS $$ BEGIN RAISE EXCEPTION 'no comments today'; END $$`);
    await client.query(`CREATE EVENT TRIGGER refuse ON ddl_command_end WHEN TAG IN ('COMMENT')
      EXECUTE FUNCTION data.refuse()`);
  });
}
