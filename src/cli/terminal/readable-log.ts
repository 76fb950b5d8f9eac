/** Formats the service's log for a terminal: a short line for each event. Programs read JSON (`createLogger`). */
import type { DestinationStream } from 'pino';
import { colored, printable } from './text.js';

interface Line extends Readonly<Record<string, unknown>> {
  readonly level: number;
  readonly time: string;
  readonly msg: string;
}

/** Levels of pino. */
const WARNING = 40;
const ERROR = 50;

/** `listening` has its own message for people. */
const LEFT_OUT = ['listening'];

export const terminalLog = (out: NodeJS.WriteStream): DestinationStream => ({
  write: (json) => {
    const line = JSON.parse(json) as Line;
    if (!LEFT_OUT.includes(line.msg)) out.write(`${logLine(line, out)}\n`);
  },
});

/** `14:03:12 POST /api/cdp/sql 200 4.1 ms shop`, or `14:03:12 Error: a message (field: value)` */
export function logLine({ level, time, msg, ...fields }: Line, out: NodeJS.WriteStream): string {
  const clock = colored(out, 'dim', new Date(time).toTimeString().slice(0, 8));
  const text = printable(msg === 'request' ? requestText(fields) : eventText(msg, fields));
  if (level >= ERROR) return `${clock} ${colored(out, 'red', `Error: ${text}`)}`;
  if (level >= WARNING) return `${clock} ${colored(out, 'yellow', `Warning: ${text}`)}`;
  return `${clock} ${Number(fields.status) >= 400 ? colored(out, 'yellow', text) : text}`;
}

type Fields = Readonly<Record<string, unknown>>;

const requestText = ({ method, route, status, duration_ms: ms, error, project }: Fields): string =>
  [method, route ?? '-', status, `${valueText(ms)} ms`, project, error]
    .filter((part) => part !== undefined)
    .map(valueText)
    .join(' ');

function eventText(msg: string, fields: Fields): string {
  const fieldTexts = Object.entries(fields).map(([name, value]) => `${name}: ${valueText(value)}`);
  return fieldTexts.length === 0 ? msg : `${msg} (${fieldTexts.join(', ')})`;
}

const valueText = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));
