/** Where in the SQL an error is: the line, and a caret below the place. */
import { firstCells, printable, widthOf } from './terminal-text.js';

/** Of a line that is cut, on both sides. */
const CUT = '...';

/**
 * @param position counts characters from 1, as Postgres does
 * @param columns of the terminal: the line is cut to them, around the place
 */
export function errorPlace(sql: string, position: number, columns = Infinity): string[] {
  const before = [...sql].slice(0, position - 1).join('');
  const start = before.lastIndexOf('\n') + 1;
  const end = sql.indexOf('\n', before.length);
  const label = `LINE ${before.split('\n').length}: `;
  const onScreen = (text: string): string => printable(text.replaceAll('\t', ' '));
  const [left, right] = aroundPlace(
    onScreen(before.slice(start)),
    onScreen(sql.slice(before.length, end === -1 ? undefined : end).trimEnd()),
    columns - label.length,
  );
  return [label + left + right, ' '.repeat(label.length + widthOf(left)) + '^'];
}

/** As much of both sides as there is room for, more of what comes before the place. */
function aroundPlace(left: string, right: string, room: number): [string, string] {
  if (widthOf(left) + widthOf(right) <= room) return [left, right];
  const half = Math.max(CUT.length + 1, Math.floor((room * 2) / 3));
  const cutLeft = widthOf(left) <= half ? left : CUT + lastCells(left, half - CUT.length);
  const rest = Math.max(CUT.length + 1, room - widthOf(cutLeft));
  return [cutLeft, widthOf(right) <= rest ? right : firstCells(right, rest - CUT.length) + CUT];
}

const reversed = (text: string): string => [...text].reverse().join('');

const lastCells = (text: string, cells: number): string => reversed(firstCells(reversed(text), cells));
