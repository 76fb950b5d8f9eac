/** Rows of `_cdp.feed_schema`: what a change of the schema means to a reader (migration 020 of projects). */
import { readMessage, type Relation } from '../pg/index.js';

export interface SchemaRow {
  /** `rights` is for the service only. */
  readonly change: string;
  /** Postgres's command tag. */
  readonly command: string;
  readonly table_oid: string | null;
  readonly schema_name: string | null;
  readonly table_name: string | null;
  /** The table's former name. */
  readonly was: string | null;
  readonly partition: string | null;
  readonly columns: readonly { readonly name: string; readonly type: string }[] | null;
  /** The columns of the primary key. */
  readonly key: readonly string[] | null;
  /** Rows have changed that no changes of rows tell. */
  readonly snapshot: boolean;
}

export const isSchemaTable = ({ schema, name }: Relation): boolean => schema === '_cdp' && name === 'feed_schema';

/** @param message an insert into the table */
export function schemaRow(message: Buffer, { columns }: Relation): SchemaRow {
  const read = readMessage(message);
  if (read?.type !== 'change' || read.change.kind !== 'insert') throw new Error('The log has no row of a schema here');
  const { row } = read.change;
  const value = (name: string): string | null => row[columns.findIndex((column) => column.name === name)] ?? null;
  const json = <T>(name: string): T | null => JSON.parse(value(name) ?? 'null') as T | null;
  return {
    change: value('change') ?? '',
    command: value('command') ?? '',
    table_oid: value('table_oid'),
    schema_name: value('schema_name'),
    table_name: value('table_name'),
    was: value('was'),
    partition: value('partition'),
    columns: json<{ name: string; type: string }[]>('columns')?.map(({ name, type }) => ({ name, type })) ?? null,
    key: json('key'),
    snapshot: value('snapshot') === 't',
  };
}
