/**
 * The widths of a grid's columns: as set by the user, otherwise as their names, types and first rows require, within
 * limits.
 */
import { preview } from './cells.js';
import type { HeldRows } from './result.js';

const ROWS = 50;
const NARROWEST = 64;
const WIDEST = 360;

/** Texts with more characters are wider than the widest column. */
const CHARACTERS = 100;

/** Padding and border (grid.css), and a pixel for fractions. */
const AROUND = 22;

/** Measures texts, because fonts and the widths of their characters differ between machines. */
export function columnWidths(result: HeldRows): number[] {
  const context = document.createElement('canvas').getContext('2d') as CanvasRenderingContext2D;
  // The widest font in grid.css.
  context.font = `600 13px ${getComputedStyle(document.documentElement).getPropertyValue('--mono')}`;
  const widthOf = (text: string) => context.measureText(text.slice(0, CHARACTERS)).width;
  const sample = Array.from({ length: Math.min(ROWS, result.held) }, (_, row) => result.cells(row));
  return result.columns.map(({ name, type }, i) => {
    const texts = [name, type || 'text', ...sample.map((cells) => preview(cells[i] ?? 'null', type))];
    const widest = Math.max(...texts.map(widthOf));
    return Math.ceil(Math.max(NARROWEST, Math.min(WIDEST, widest + AROUND)));
  });
}

/** Widths in pixels by column name, for columns that the user has resized. */
export type OwnWidths = ReadonlyMap<string, number>;

/** @param width undefined: the suggested width */
export function withWidth(own: OwnWidths, name: string, width: number | undefined): OwnWidths {
  const widths = new Map(own);
  if (width === undefined) widths.delete(name);
  else widths.set(name, Math.round(Math.max(40, Math.min(2_000, width))));
  return widths;
}

/** The width after a key; `undefined` for the suggested width, `null` for a key that does nothing. */
export function keyedWidth(key: string, width: number): number | undefined | null {
  if (key === '+' || key === '=') return width + 16;
  if (key === '-') return width - 16;
  return key === '0' ? undefined : null;
}
