/** Why a cell does not fit its column. The reason follows a beginning such as "Record 3, column "age": ". */
import { cut, quoted } from '../../contract/message-text.js';
import { unstorable } from '../../contract/column-types.js';
import type { JsonNode } from '../json/nodes.js';

export class CellError {
  constructor(
    readonly reason: string,
    readonly hint?: string,
  ) {}
}

/** A cell in Postgres's text format, NULL, or the reason why there is none. */
export type Cell = string | null | CellError;

/** An error if Postgres cannot store the text. */
export function textError(text: string): CellError | undefined {
  const reason = unstorable(text);
  return reason === undefined ? undefined : new CellError(reason);
}

const SHOWN_CHARACTERS = 40;

/** A value in a message to its sender: its beginning, or its kind. These messages are never logged. */
export function shown(node: JsonNode): string {
  switch (node.kind) {
    case 'null':
      return 'null';
    case 'boolean':
      return String(node.value);
    case 'number':
      return cut(node.text, SHOWN_CHARACTERS);
    case 'string':
      return quoted(node.value, SHOWN_CHARACTERS);
    case 'array':
      return 'an array';
    case 'object':
      return 'an object';
  }
}
