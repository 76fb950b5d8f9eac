/**
 * Converts bytes to bytes, without depending on their purpose: JSON batches to the rows of COPY, DataRow messages to
 * JSON or CSV, and JSON bodies without losing a digit. Import only from here.
 */
export { batchEncoder, type BatchEncoder } from './batch/batch-encoder.js';
export { readCell } from './batch/cell.js';
export { type Cell, CellError } from './batch/cell-error.js';
export { checkRecords, type RecordCells, type UnknownKeys } from './batch/check-records.js';
export type { BatchColumn } from './batch/table-layout.js';
export type { EncodedBatch } from './batch/encoded-batch.js';
export { readLines, readRecords, type RecordBatch } from './batch/read-records.js';
export { BufferList, GrowingBuffer, type OwnedBuffer } from './buffers.js';
export { readDataBody, readEventsBody, readJsonBody } from './json/json-body.js';
export { type JsonMember, type JsonNode, jsonText, memberOf } from './json/nodes.js';
export { allSteps, type Steps } from './json/read-json.js';
export { encodeParameters } from './parameters.js';
export { describeColumns, type ResultColumn, type RowMode } from './results/result-columns.js';
export { type EncodedRows, rowEncoder, type RowEncoder } from './results/row-encoder.js';
export { JsonBytes } from './results/json-bytes.js';
export { writerOfText, type WriteText } from './results/text-values.js';
export type { Numbers } from './results/types.js';
