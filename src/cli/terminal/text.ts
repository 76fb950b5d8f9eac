/** Text on a terminal: its width in cells, its color, and the escaping of control characters. */
import { stripVTControlCharacters, styleText } from 'node:util';

/** East Asian Width W and F (Unicode, UAX 11) by scripts and the blocks around them, and emoji. */
const WIDE =
  /(?![\u1160-\u11ff\u303f\ud7b0-\ud7ff\uff61-\uffdc])[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}\p{sc=Bopomofo}\p{sc=Yi}\p{sc=Tangut}\p{sc=Nushu}\p{Emoji_Presentation}\u2329\u232a\u2ff0-\u303e\u3099-\u33ff\u4dc0-\u4dff\ufe10-\ufe1f\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6]/u;

/** Made on first use: that takes longer than most commands need to start. */
let graphemes: Intl.Segmenter | undefined;

/** The width of a text in cells; color codes have none. */
export function widthOf(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length;
  graphemes ??= new Intl.Segmenter();
  let width = 0;
  for (const { segment } of graphemes.segment(stripVTControlCharacters(text))) width += WIDE.test(segment) ? 2 : 1;
  return width;
}

/** The beginning of a text, up to a width. */
export function firstCells(text: string, cells: number): string {
  let [taken, width] = ['', 0];
  for (const character of text) {
    width += widthOf(character);
    if (width > cells) break;
    taken += character;
  }
  return taken;
}

const ESCAPES: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };
const CONTROL = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

const escaped = (character: string): string =>
  ESCAPES[character] ?? `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;

/**
 * Escapes text for one line. Control and format characters could move the cursor, or make text look like other text.
 */
export const printable = (text: string): string => text.replace(CONTROL, escaped);

/** The same, but keeps line ends and tabs. */
export const printableLines = (text: string): string =>
  text.replace(CONTROL, (character) => (character === '\n' || character === '\t' ? character : escaped(character)));

/** JSON on one line; `JSON.stringify` escapes only some control characters. */
export const printableJson = (value: unknown): string =>
  JSON.stringify(value).replace(CONTROL, (character) =>
    [...Array(character.length).keys()]
      .map((i) => `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`)
      .join(''),
  );

/** Quotes a word for a POSIX shell. */
export const quoted = (word: string): string =>
  /^[\w./:@=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;

/** Colors a text for a terminal, unless `NO_COLOR` is set; with `FORCE_COLOR`, for any output. */
export const colored = (stream: NodeJS.WriteStream, color: 'red' | 'yellow' | 'green' | 'dim', text: string): string =>
  styleText(color, text, { stream, validateStream: true });
