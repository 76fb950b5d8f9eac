/**
 * Bytes to bytes, without knowing what for: JSON batches to the rows of COPY, DataRow messages to JSON or CSV, and the one
 * reader of JSON that keeps every digit. Import from here alone.
 */
export { arrayLiteral, quotedElement } from './batch/array-literal.js';
export { batchEncoder, type BatchEncoder } from './batch/batch-encoder.js';
export { readCell } from './batch/cell.js';
export { type Cell, CellError } from './batch/cell-error.js';
export { checkRecords, type Row } from './batch/check-records.js';
export type { BatchColumn } from './batch/column.js';
export { readRecords, type Records } from './batch/read-records.js';
export type { EncodedBatch } from './batch/wasm-encoder.js';
export { allocBuffer, BufferList, freeBuffer } from './buffers.js';
export { type JsonNode, refuseDuplicateKeys } from './json/nodes.js';
export { type JsonDocument, readJson } from './json/read-json.js';
export { describes, validator } from './json/validator.js';
export { describeColumns, type ResultColumn, resultFormats } from './results/columns.js';
export { csvHeader, rowEncoder, type RowEncoder, type RowMode } from './results/row-encoder.js';
