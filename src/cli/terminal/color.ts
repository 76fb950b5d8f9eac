/** Colors, where the terminal has them and `NO_COLOR` does not forbid them (https://no-color.org): Node looks at both. */
const CODES = { red: 31, yellow: 33, green: 32, dim: 2, bold: 1 } as const;

export function colored(stream: NodeJS.WriteStream, color: keyof typeof CODES, text: string): string {
  // Only a terminal has the method.
  const hasColors = stream.isTTY && stream.hasColors();
  return hasColors ? `\u001b[${CODES[color]}m${text}\u001b[0m` : text;
}
