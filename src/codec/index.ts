/**
 * Bytes to bytes, without knowing what for: JSON batches to the rows of COPY, DataRow messages to JSON or CSV, and JSON
 * bodies without losing a digit. Import from here alone.
 */
export { batchEncoder, type BatchEncoder } from './batch/batch-encoder.js';
export { readCell } from './batch/cell.js';
export { CellError } from './batch/cell-error.js';
export { checkRecords, type Row, rowsOf } from './batch/check-records.js';
export type { BatchColumn } from './batch/column.js';
export { columnArrays } from './batch/column-arrays.js';
export { readRecords, type Records } from './batch/read-records.js';
export type { EncodedBatch } from './batch/wasm-encoder.js';
export { type JsonBody, readDataBody, readJsonBody, readMember } from './json/json-body.js';
export { type JsonNode, jsonText } from './json/nodes.js';
export { encodeParameters } from './parameters.js';
export { describeBuiltIn, describeColumns, type ResultColumn } from './results/columns.js';
export { rowEncoder, type RowEncoder, type RowMode } from './results/row-encoder.js';
export type { Numbers } from './results/types.js';
