/** Colors for terminals, unless `NO_COLOR` is set; with `FORCE_COLOR`, for any output. */
import { styleText } from 'node:util';

export const colored = (stream: NodeJS.WriteStream, color: 'red' | 'yellow' | 'green' | 'dim', text: string): string =>
  styleText(color, text, { stream, validateStream: true });
