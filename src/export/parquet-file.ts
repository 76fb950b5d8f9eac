/**
 * Writes the rows of a query as a Parquet file, one row group at a time, so that memory does not grow with the number
 * of rows.
 */
import { ByteWriter, type ColumnSource, ParquetWriter } from 'hyparquet-writer';
import type { CdpClient } from '../client/client.js';
import type { StreamOptions } from '../client/sql.js';
import { FileError } from '../import/file-error.js';
import { membersOf } from '../import/json-records.js';
import { type ParquetColumn, parquetColumns } from './parquet-columns.js';

/** Either limit ends a row group. */
const GROUP = { rows: 100_000, characters: 16 * 1024 * 1024 };

/**
 * Runs the query twice: a stream names types without modifiers, and DECIMAL needs those of `numeric(10,2)`.
 * @param onRow called for each row
 * @throws FileError if the type of its column cannot hold a value, such as `infinity`
 */
export async function* parquetRows(
  client: CdpClient,
  sql: string,
  params: readonly unknown[],
  options: Omit<StreamOptions, 'numbers'>,
  onRow: () => void,
): AsyncGenerator<Uint8Array, void> {
  const response = await client.query(sql, params, { ...options, max_rows: 1 });
  const columns = parquetColumns((response.results?.at(-1) ?? response).columns);
  const bytes = new ByteWriter();
  const schema = [{ name: 'root', num_children: columns.length }, ...columns.map(({ element }) => element)];
  const writer = new ParquetWriter({ writer: bytes, schema, createdBy: 'cdp-data-engine' });
  const taken = (): Uint8Array => {
    const chunk = bytes.getBytes().slice();
    bytes.index = 0;
    return chunk;
  };
  let group = emptyGroup(columns);
  let [rows, characters] = [0, 0];
  const writeGroup = (): Uint8Array => {
    const size = group[0]?.data.length ?? 0;
    void writer.write({ columnData: group, rowGroupSize: size });
    group = emptyGroup(columns);
    characters = 0;
    return taken();
  };
  for await (const line of client.sqlLines(sql, params, { ...options, numbers: 'raw' })) {
    addRow(group, columns, line, ++rows);
    onRow();
    characters += line.length;
    if (rows % GROUP.rows === 0 || characters >= GROUP.characters) yield writeGroup();
  }
  if (characters > 0) yield writeGroup();
  // Readers that know only the older form need this annotation for columns of JSON bytes.
  writer.schema = schema.map((element) =>
    'logical_type' in element && element.logical_type?.type === 'JSON'
      ? { ...element, converted_type: 'JSON' }
      : element,
  );
  void writer.finish();
  yield taken();
}

type Group = (Omit<ColumnSource, 'data'> & { data: unknown[] })[];

const emptyGroup = (columns: readonly ParquetColumn[]): Group =>
  // No statistics for JSON: the smallest and the largest document are useless to readers.
  columns.map(({ element: { name }, isJson = false }) => ({ name, data: [], statistics: !isJson }));

function addRow(group: Group, columns: readonly ParquetColumn[], line: string, row: number): void {
  const members = membersOf(line) ?? [];
  columns.forEach(({ element: { name }, toValue }, i) => {
    const json = members[i]?.[1] ?? 'null';
    const value = json === 'null' ? null : toValue(json);
    if (value === undefined) {
      throw new FileError(
        `Row ${row}: Parquet cannot represent ${json} in the column "${name}"`,
        `Write the column as text: "${name}"::text`,
      );
    }
    group[i]?.data.push(value);
  });
}
