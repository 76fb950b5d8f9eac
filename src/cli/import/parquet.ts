/** Reads records of a Parquet file as JSON text, part of a row group at a time. */
import {
  asyncBufferFromFile,
  type DecodedArray,
  type FileMetaData,
  parquetMetadataAsync,
  type ParquetRowRange,
  parquetScan,
  parquetSchema,
} from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { UsageError } from '../exit.js';
import { flattened } from '../../import/flatten.js';
import { labelOf } from './open-input.js';
import type { JsonRecord } from '../../import/json-records.js';
import { columnType, jsonOf, PARSERS, withRawDecimals } from './parquet-values.js';
import type { ReadOptions, Source } from '../../import/source.js';

/** The number of values read at a time, over all columns. */
const VALUES = 100_000;
/**
 * The limit for a column of a row group, whose encoded bytes are kept in memory, and for nested values also the decoded
 * ones.
 */
const CHUNK_MIB = 256;

/** @param size null if the file can be read only once @throws UsageError if it cannot be read as Parquet */
export async function openParquet(path: string, size: number | null, { flatten }: ReadOptions): Promise<Source> {
  const label = labelOf(path);
  if (size === null) throw new UsageError(`${label}: Parquet must be a regular file, not a pipe`);
  const file = await asyncBufferFromFile(path);
  const metadata = await explained(label, parquetMetadataAsync(file, { geoparquet: false }).then(withRawDecimals));
  requireSmallGroups(label, metadata);
  const columns = parquetSchema(metadata).children;
  let [rowsRead, isClosed] = [0, false];
  const read = async function* (): AsyncGenerator<JsonRecord, void> {
    const options = { file, metadata, compressors, parsers: PARSERS, utf8: false, geoparquet: false };
    const scan = await explained(label, parquetScan(options));
    for (const group of scan.ranges) {
      for (const part of partsOf(group, columns.length)) {
        const values: DecodedArray[] = [];
        for (const { element, children } of columns) {
          const column = element.name;
          // Nested values can be decoded only from the beginning of the group; parts of them then come from memory.
          if (children.length > 0 || element.repetition_type === 'REPEATED')
            await explained(label, scan.readColumn({ column, ...group }));
          values.push(await explained(label, scan.readColumn({ column, ...part })));
        }
        for (let i = 0; i < part.rowEnd - part.rowStart; i++) {
          if (isClosed) return;
          const members = columns.map(
            (column, at) => `${JSON.stringify(column.element.name)}:${jsonOf(values[at]?.[i], column)}`,
          );
          yield { line: ++rowsRead, text: `{${members.join(',')}}` };
        }
      }
    }
  };
  const total = Number(metadata.num_rows);
  return {
    input: {
      label,
      name: path,
      size,
      bytesRead: () => (total === 0 ? size : (rowsRead / total) * size),
      close: () => (isClosed = true),
    },
    format: { kind: 'parquet', delimiter: '' },
    header: undefined,
    types: new Map(columns.map((column) => [column.element.name, columnType(column)])),
    records: flatten ? flattened(read(), label) : read(),
  };
}

/** @param group rows of one row group @returns parts small enough to fit in memory as JavaScript values */
function* partsOf({ rowStart: start, rowEnd: end }: ParquetRowRange, columns: number): Generator<ParquetRowRange> {
  const rows = Math.ceil(VALUES / Math.max(1, columns));
  for (let rowStart = start; rowStart < end; rowStart += rows)
    yield { rowStart, rowEnd: Math.min(end, rowStart + rows) };
}

function requireSmallGroups(label: string, { row_groups: groups }: FileMetaData): void {
  const chunks = groups.flatMap(({ columns }) => columns.map(({ meta_data: data }) => data));
  const bytes = chunks.reduce((most, data) => Math.max(most, Number(data?.total_uncompressed_size ?? 0n)), 0);
  if (bytes <= CHUNK_MIB * 1024 * 1024) return;
  throw new UsageError(
    `${label} has a row group with ${Math.ceil(bytes / 1024 / 1024)} MiB in one column; up to ${CHUNK_MIB} MiB can be read`,
    'Write it with smaller row groups, such as of 100,000 rows',
  );
}

/** Adds the file to errors of the reader, which do not name it. */
async function explained<T>(label: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw new UsageError(
      `${label} cannot be read as Parquet: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}
