/** Postgres arrays as JSON arrays, one level per dimension, as obviously as possible: what WebAssembly is compared with. */
import { OTHER } from '../../../src/codec/results/assembly/kinds.js';
import { asIs, MalformedRow, TEXT_FORMAT, type TypeEncoder } from '../../../src/codec/results/type-encoder.js';

/** An array has the format of its elements. It is written as JSON, in CSV, too. */
export function arrayOf(element: TypeEncoder): TypeEncoder {
  const { json } = element;
  if (element.format === TEXT_FORMAT) {
    const { format, plain } = element;
    return { kind: OTHER, format, json: asIs, plain: (text) => fromText(text, (one) => json(plain(one))) };
  }
  const { format, plain } = element;
  return { kind: OTHER, format, json: asIs, plain: (bytes) => fromBinary(bytes, (one) => json(plain(one))) };
}

/** MAXDIM of Postgres. */
const MAX_DIMENSIONS = 6;

/**
 * Binary format (array_send of Postgres): int32 dimensions, int32 flags, oid of the elements; for each dimension int32
 * size, int32 lower bound; then the elements in row-major order, each int32 length (-1: NULL) and bytes.
 */
function fromBinary(bytes: Buffer, elementJson: (bytes: Buffer) => string): string {
  const dimensions = bytes.readInt32BE();
  if (dimensions === 0) return '[]';
  if (dimensions < 0 || dimensions > MAX_DIMENSIONS) throw new MalformedRow();
  const firstSize = 12;
  let at = firstSize + 8 * dimensions;

  const element = (): string => {
    const length = bytes.readInt32BE(at);
    const start = at + 4;
    at = start + Math.max(0, length);
    if (at > bytes.length) throw new MalformedRow();
    return length < 0 ? 'null' : elementJson(bytes.subarray(start, at));
  };
  const level = (depth: number): string => {
    if (depth === dimensions) return element();
    const size = bytes.readInt32BE(firstSize + 8 * depth);
    // An empty array has no dimensions, so each dimension has at least one element.
    if (size < 1) throw new MalformedRow();
    const items: string[] = [];
    for (let i = 0; i < size; i++) items.push(level(depth + 1));
    return `[${items.join()}]`;
  };
  return level(0);
}

/**
 * Text format (Postgres manual, Array Input and Output Syntax): `{1,NULL,"a \"quoted\" one"}`, nested braces for more
 * dimensions, and `[0:1]={…}` if a lower bound is not 1.
 */
function fromText(text: string, elementJson: (text: string) => string): string {
  let at = text.startsWith('[') ? text.indexOf('=') + 1 : 0;
  let json = '';
  while (at < text.length) {
    const start = at++;
    const first = text[start] as string;
    if (first === '{') json += '[';
    else if (first === '}') json += ']';
    else if (first === ',') json += ',';
    else if (first === '"') {
      while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
      if (at >= text.length) throw new MalformedRow();
      json += elementJson(text.slice(start + 1, at++).replace(/\\(.)/gs, '$1'));
    } else {
      while (at < text.length && text[at] !== ',' && text[at] !== '}') at++;
      const bare = text.slice(start, at);
      // Postgres quotes the text NULL; without quotes it means a missing value.
      json += bare === 'NULL' ? 'null' : elementJson(bare);
    }
  }
  return json;
}
