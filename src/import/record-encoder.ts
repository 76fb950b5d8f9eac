/**
 * Encodes records of a file as JSON: for a request, and for the file of refused ones. A value that does not fit its
 * column is sent as text, so that the service rejects it.
 */
import type { ErrorDetail } from '../contract/errors.js';
import { counted, quoted } from '../contract/message-text.js';
import { fitsHeader } from './csv-reader.js';
import type { FieldMapping } from './field-mapping.js';
import { type Format, hasCells } from './format.js';
import { isJson, membersOf } from './json-records.js';
import { AS_READ, type EncodedRecord } from './refused-lines.js';
import type { FileRecord } from './source.js';
import { type EpochDigits, epochTimestamp } from './timestamps.js';
import { cellEncoder, misreading, type Notation } from './values.js';

/** Characters of a cell in a message. */
const SHOWN = 40;

export type RecordEncoder = (record: FileRecord) => EncodedRecord;

export const encoderFor = (
  kind: Format['kind'],
  mappings: readonly FieldMapping[],
  notation: Notation,
): RecordEncoder => (hasCells(kind) ? cellEncoders(mappings, notation) : jsonEncoder(mappings));

function cellEncoders(mappings: readonly FieldMapping[], notation: Notation): RecordEncoder {
  const columns = mappings.map(({ column, type, isUnknown, dates = notation.dates, epoch = notation.epoch }) => ({
    column,
    misread: misreading(type ?? 'TEXT', { ...notation, dates, epoch }),
    // Without an id, the service generates one. A field that no column takes matters only if it has a value.
    isNeverNull: column === 'id' || isUnknown === true,
    isJsonb: type === 'JSONB',
    key: `${JSON.stringify(column)}:`,
    toJson: cellEncoder(type ?? 'TEXT', {
      ...notation,
      dates,
      epoch,
    }),
  }));
  return ({ line, cells = [] }) => {
    if (!fitsHeader(cells, columns.length)) {
      const message = `The record has ${counted(cells.length, 'field')}, but the header has ${columns.length}`;
      const values = columns.flatMap(({ column, key, toJson }, i) => {
        const cell = cells[i];
        return column === null || cell == null ? [] : [`${key}${toJson(cell)}`];
      });
      const json = JSON.stringify(cells);
      const object = `{${[...values, `${JSON.stringify(AS_READ)}:${json}`].join(',')}}`;
      return { line, json, object, problem: { error: 'invalid_value', message } };
    }
    let members = '';
    let problem: ErrorDetail | undefined;
    for (let i = 0; i < columns.length; i++) {
      const { column, misread, isNeverNull, isJsonb, key, toJson } = columns[i] as (typeof columns)[number];
      const cell = cells[i] as string | null;
      if (column === null || (cell === null && isNeverNull)) continue;
      const value = cell === null ? 'null' : toJson(cell);
      // Text that is not JSON has become a string.
      if (cell !== null && isJsonb && value !== cell) {
        problem ??= { column, error: 'invalid_value', message: `Column "${column}" takes JSON, and this is not JSON` };
      }
      const wrong = cell === null ? undefined : misread?.(cell);
      if (wrong !== undefined)
        problem ??= {
          column,
          error: 'invalid_value',
          message: `Column "${column}": ${quoted(cell ?? '', SHOWN)} ${wrong}`,
        };
      members += `${members === '' ? '' : ','}${key}${value}`;
    }
    const json = `{${members}}`;
    return problem === undefined ? { line, json } : { line, json, problem };
  };
}

function jsonEncoder(mappings: readonly FieldMapping[]): RecordEncoder {
  const byField = new Map(mappings.map((mapping) => [mapping.field, mapping]));
  const isUnchanged = mappings.every(({ field, column, epoch }) => field === column && epoch === undefined);
  return ({ line, text = '' }) => {
    const members = isUnchanged ? undefined : membersOf(text);
    if (members === undefined && !(/^\s*\{/.test(text) && isJson(text))) {
      const message = isJson(text) ? 'A record must be a JSON object' : 'This is not JSON';
      return { line, json: JSON.stringify(text), problem: { error: 'invalid_value', message } };
    }
    if (members === undefined) return { line, json: text };
    const renamed = members.flatMap(([field, value]) => {
      const { column, epoch } = byField.get(field) ?? { column: field };
      return column === null ? [] : [`${JSON.stringify(column)}:${epoch === undefined ? value : timeOf(value, epoch)}`];
    });
    return { line, json: `{${renamed.join(',')}}` };
  };
}

/** @param json a number, possibly in quotes; other values are not changed */
function timeOf(json: string, epoch: EpochDigits): string {
  const time = epochTimestamp(json.replace(/^"(.*)"$/, '$1'), epoch);
  return time === undefined ? json : JSON.stringify(time);
}
