/**
 * JSON arrays as Postgres's array literals (Postgres manual, Array Value Input), escaped for COPY text. They equal
 * those of `readArray` in the checked path (`cell.ts`): every element except NULL is quoted.
 */
import { CLOSE_BRACE, CLOSE_BRACKET, COMMA, OPEN_BRACE, OPEN_BRACKET, QUOTE } from './bytes';
import { jsonDepth, valuesPerCell } from './host';
import { CELL_DEPTH, NULL_WORD, scalarEnd, skipSpace } from './json';
import { outAt, seek, write } from './memory';
import { copied, ELEMENT, string } from './strings';

const NULL_LITERAL: u32 = 0x4c4c_554e;

/**
 * At the opening bracket.
 * @returns the end of the array; 0 if it is not an array, contains an object, which needs more room, or too many values
 */
export function array(at: usize): usize {
  let depth = CELL_DEPTH;
  // The array itself does not count.
  let values = -1;
  while (at != 0) {
    // Start of an element.
    if (++values > valuesPerCell) return 0;
    if (load<u8>(at) == OPEN_BRACKET) {
      if (depth == jsonDepth) return 0;
      depth++;
      write(OPEN_BRACE);
      at = skipSpace(at + 1);
      if (load<u8>(at) != CLOSE_BRACKET) continue;
      // The array is empty: the loop below closes it.
    } else at = element(at);
    if (at == 0) return 0;
    // End of an element.
    for (;;) {
      at = skipSpace(at);
      const next: u32 = load<u8>(at);
      at++;
      if (next == COMMA) {
        write(COMMA);
        at = skipSpace(at);
        break;
      }
      if (next != CLOSE_BRACKET) return 0;
      write(CLOSE_BRACE);
      depth--;
      if (depth == CELL_DEPTH) return at;
    }
  }
  return 0;
}

function element(at: usize): usize {
  if (load<u32>(at) == NULL_WORD) {
    store<u32>(outAt, NULL_LITERAL);
    seek(outAt + 4);
    return at + 4;
  }
  write(QUOTE);
  const end = load<u8>(at) == QUOTE ? string(at, ELEMENT) : copied(at, scalarEnd(at));
  write(QUOTE);
  return end;
}
