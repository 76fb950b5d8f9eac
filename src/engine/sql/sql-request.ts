/** What a caller asks of free SQL. */
import type { JsonNode, Numbers, RowMode } from '../../codec/index.js';

/** How statements of free SQL run. */
export interface SqlMode {
  /** Run as the reader, in a READ ONLY transaction. */
  readOnly: boolean;
  timeoutMs: number;
  /** Aborted when the client disconnects. */
  signal: AbortSignal;
  /** Transaction modes as in BEGIN; if given, nothing runs outside the transaction. */
  modes?: readonly string[];
  /** Refuse a query from which row security would hide rows. */
  allRows?: boolean;
}

export interface SqlRequest extends SqlMode {
  sql: string;
  params: readonly JsonNode[];
}

export interface CollectRequest extends SqlRequest {
  maxRows: number;
  /** The most bytes of rows, over all statements. Default: the limit of a response. */
  maxBytes?: number;
  rowMode: RowMode;
  numbers?: Numbers | undefined;
}
