/** Describes a table to the encoder in WebAssembly, as bytes that `assembly/table.ts` reads. */
import * as kinds from './assembly/kinds.js';
import type { BatchColumn } from './column.js';

/** COPY's formats; `marked` is text in which a mark represents a column's default. */
export type BatchFormat = 'binary' | 'text' | 'marked';

/** Describes how to encode the batches for one table in one format. */
export interface Program {
  readonly format: BatchFormat;
  readonly columns: readonly BatchColumn[];
  readonly bytes: Uint8Array;
}

export function programOf(columns: readonly BatchColumn[], format: BatchFormat): Program {
  const spellings = columns.flatMap(({ name, isGeneratedAlways }, column) =>
    // A record with such a column goes to the INSERT, which rejects it.
    isGeneratedAlways ? [] : spellingsOf(name).map((bytes) => ({ column, bytes })),
  );
  const bytes = Buffer.concat([
    words(Number(format !== 'binary'), Number(format === 'marked'), columns.length, spellings.length),
    ...columns.map((column) => words(kindOf(column), Number(column.hasDefault))),
    ...spellings.flatMap(({ column, bytes }) => [words(column, bytes.length), bytes]),
  ]);
  return { format, columns, bytes };
}

const words = (...values: number[]): Uint8Array => new Uint8Array(Uint32Array.from(values).buffer);

function kindOf({ type, isId, isJson, isArray }: BatchColumn): number {
  if (isId) return kinds.ID;
  if (type !== null) return kinds[type];
  if (isJson) return kinds.JSON_TEXT;
  return isArray ? kinds.ARRAY : kinds.OTHER;
}

/**
 * The name unchanged, and if it is not all ASCII, also with escapes in lowercase or uppercase digits, as from writers
 * that send only ASCII.
 */
function spellingsOf(name: string): Buffer[] {
  const plain = JSON.stringify(name);
  const escaped = (spell: (digits: string) => string) =>
    plain.replace(/[^\0-\x7f]/g, (unit) => `\\u${spell(unit.charCodeAt(0).toString(16).padStart(4, '0'))}`);
  const spellings = [plain, escaped((digits) => digits), escaped((digits) => digits.toUpperCase())];
  return [...new Set(spellings)].map((text) => Buffer.from(text));
}
