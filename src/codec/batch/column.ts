/** A column of the table that a batch is for, as far as its cells depend on it. */
import type { ColumnType } from '../../contract/column-types.js';

export interface BatchColumn {
  readonly name: string;
  /** One of the six types, or null for a column of another Postgres type, made by free SQL. */
  readonly type: ColumnType | null;
  /** What a response calls the type: the API's name in capitals, else Postgres's own name with modifiers. */
  readonly displayType: string;
  /** `json`-like types other than jsonb, and domains over them: they take JSON text. */
  readonly isJson: boolean;
  /** A Postgres array type: takes a JSON array or Postgres's own `{…}` text. */
  readonly isArray: boolean;
  /**
   * A default, identity or generation expression exists, or may exist below a view: a record without the key must leave
   * the column out.
   */
  readonly hasDefault: boolean;
  /** `GENERATED ALWAYS AS IDENTITY`: an INSERT rejects a value for it, and COPY would store it. */
  readonly isGeneratedAlways: boolean;
  /** The service's own `id` column (uuid primary key): a record may carry a valid UUID, never null. */
  readonly isId: boolean;
}
