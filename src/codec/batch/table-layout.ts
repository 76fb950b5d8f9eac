/** Describes a table to the encoder in WebAssembly, as bytes that `assembly/table.ts` reads. */
import type { ColumnType } from '../../contract/column-types.js';
import * as kinds from './assembly/kinds.js';

/** The properties of a table's column on which its cells depend. */
export interface BatchColumn {
  readonly name: string;
  /** One of the six types, or null for another Postgres type, from free SQL. */
  readonly type: ColumnType | null;
  /** The name of the type in responses: the API's name in capitals, otherwise Postgres's own name with modifiers. */
  readonly displayType: string;
  /** A type like `json`, other than jsonb, or a domain over it: accepts JSON text. */
  readonly isJson: boolean;
  /** A Postgres array type: accepts a JSON array or Postgres's own `{…}` text. */
  readonly isArray: boolean;
  /**
   * The column has a default, identity or generation expression, or may have one below a view: if a record lacks the
   * key, the INSERT must not list the column.
   */
  readonly hasDefault: boolean;
  /** `GENERATED ALWAYS`, as an identity or from other columns: an INSERT rejects a value for it, and COPY would store that of an identity. */
  readonly isGeneratedAlways: boolean;
  /** The service's own `id` column (uuid primary key): a record may contain a valid UUID, never null. */
  readonly isId: boolean;
}

/** COPY's formats; `marked` is text in which a mark represents a column's default. */
export type BatchFormat = 'binary' | 'text' | 'marked';

/** Describes how to encode the batches for one table in one format. */
export interface TableLayout {
  readonly format: BatchFormat;
  readonly columns: readonly BatchColumn[];
  readonly bytes: Uint8Array;
}

export function tableLayoutOf(columns: readonly BatchColumn[], format: BatchFormat): TableLayout {
  const bytes = Buffer.concat([
    words(Number(format !== 'binary'), Number(format === 'marked'), columns.length),
    ...columns.flatMap((column) => {
      const key = keyOf(column);
      return [words(kindOf(column), Number(column.hasDefault), key.length), key];
    }),
  ]);
  return { format, columns, bytes };
}

const words = (...values: number[]): Uint8Array => new Uint8Array(Uint32Array.from(values).buffer);

/**
 * The column's name as most writers of JSON spell it. A record with another spelling goes to the checked path, as does
 * one with a column that is always generated: its INSERT rejects it.
 */
function keyOf({ name, isGeneratedAlways }: BatchColumn): Buffer {
  return Buffer.from(isGeneratedAlways ? '' : JSON.stringify(name));
}

function kindOf({ type, isId, isJson, isArray }: BatchColumn): number {
  if (isId) return kinds.ID;
  if (type !== null) return kinds[type];
  if (isJson) return kinds.JSON_TEXT;
  return isArray ? kinds.ARRAY : kinds.OTHER;
}
