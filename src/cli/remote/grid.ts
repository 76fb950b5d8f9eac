/** Rows as a table on a terminal: columns as wide as their widest cell, numbers to the right, nothing a terminal obeys. */

export interface GridColumn {
  name: string;
  /** Numbers stand at the right. */
  isNumber?: boolean;
}

const WIDE =
  /\p{Script=Han}|\p{Script=Hiragana}|\p{Script=Katakana}|\p{Script=Hangul}|\p{Emoji_Presentation}|[\uff01-\uff60]/u;
const graphemes = new Intl.Segmenter();

/** Cells of the terminal that a text takes. */
function widthOf(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length;
  let width = 0;
  for (const { segment } of graphemes.segment(text)) width += WIDE.test(segment) ? 2 : 1;
  return width;
}

const ESCAPES: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** Control and format characters could move the cursor, or show another text than is there. */
export const printable = (text: string): string =>
  text.replace(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (character) => ESCAPES[character] ?? `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`,
  );

/** The lines of the table: head, rule, rows. */
export function grid(columns: readonly GridColumn[], rows: readonly (readonly string[])[]): string[] {
  const names = columns.map(({ name }) => printable(name));
  const cells = rows.map((row) => row.map(printable));
  const widths = names.map((name, i) =>
    cells.reduce((widest, row) => Math.max(widest, widthOf(row[i] ?? '')), widthOf(name)),
  );
  const line = (row: readonly string[]): string =>
    row
      .map((cell, i) => {
        const space = ' '.repeat((widths[i] ?? 0) - widthOf(cell));
        return columns[i]?.isNumber ? space + cell : cell + space;
      })
      .join(' | ')
      .trimEnd();
  return [line(names), widths.map((width) => '-'.repeat(width)).join('-+-'), ...cells.map(line)];
}
