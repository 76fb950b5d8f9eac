/**
 * What the service knows of a table when it writes into it: read from the catalog inside the transaction that uses it
 * (`catalog.ts`), handed to the batch reader (`codec/batch`).
 */
import type { ColumnType } from '../../contract/column-types.js';

export interface ColumnShape {
  readonly name: string;
  /** One of the six types, or null where free SQL made a column of another Postgres type. */
  readonly type: ColumnType | null;
  /**
   * The column's type as a SQL expression without type modifiers (`bigint`, `character varying`, `text[]`), to cast a
   * text to. Without modifiers on purpose: an explicit cast to varchar(3) cuts silently, the assignment refuses.
   */
  readonly sqlType: string;
  /** What an answer calls the type: the API's name in capitals, else Postgres's own name with modifiers. */
  readonly displayType: string;
  /** True for `json`-like types beside jsonb, and domains over them: they take JSON text. */
  readonly isJson: boolean;
  /** True for a Postgres array type: takes a JSON array or Postgres's own `{…}` text. */
  readonly isArray: boolean;
  /**
   * A default, identity or generation expression exists, or may exist below a view: a record without the key must leave
   * the column out.
   */
  readonly hasDefault: boolean;
  /** `GENERATED ALWAYS AS IDENTITY`: an INSERT refuses a value of the caller's own, and COPY would store it. */
  readonly isGeneratedAlways: boolean;
  /** True only for the service's own `id` column (uuid primary key): a record may carry a valid UUID, never null. */
  readonly isId: boolean;
  readonly comment: string | null;
}

export interface TableShape {
  readonly schema: string;
  readonly name: string;
  readonly columns: readonly ColumnShape[];
  /**
   * True where COPY may do something else than an INSERT, or not what the shape says: views, partitions, rules, row level
   * security, triggers that may leave a record out, domains, whose default may change without the table.
   */
  readonly needsInsert: boolean;
  /**
   * True where what the shape was read for can run code of the project: triggers, rules, foreign keys; defaults, checks and
   * index expressions, for an insert only those that are not known to run Postgres's own alone.
   */
  readonly runsProjectCode: boolean;
  /** True where COPY can be told in a row to take a column's default: Postgres 16 and later. */
  readonly marksDefaults: boolean;
}
