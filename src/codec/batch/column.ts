/** The properties of a table's column on which its cells depend. */
import type { ColumnType } from '../../contract/column-types.js';

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
  /** `GENERATED ALWAYS AS IDENTITY`: an INSERT rejects a value for it, and COPY would store it. */
  readonly isGeneratedAlways: boolean;
  /** The service's own `id` column (uuid primary key): a record may contain a valid UUID, never null. */
  readonly isId: boolean;
}
