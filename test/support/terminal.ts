/** A terminal with a program in it, by Python's pty: tests type into it and read what it shows. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { stripVTControlCharacters } from 'node:util';

/**
 * Between our pipes and a terminal of its own for the program; ends as the program does, or with us: then it hangs up.
 */
const BRIDGE = `
import fcntl, os, pty, select, struct, sys, termios
rows, columns = int(sys.argv[1]), int(sys.argv[2])
child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))
    os.execvp(sys.argv[3], sys.argv[3:])
while True:
    for ready in select.select([0, terminal], [], [])[0]:
        try:
            data = os.read(ready, 65536)
        except OSError:
            data = b''
        if ready == 0:
            if not data:
                sys.exit(1)
            while data:
                data = data[os.write(terminal, data):]
        elif data:
            os.write(1, data)
        else:
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
`;

export interface TerminalOptions {
  env?: Record<string, string>;
  cwd?: string;
  rows?: number;
  columns?: number;
}

export interface Terminal {
  /** Types it, without waiting for anything. */
  type(text: string): void;
  /** Waits until the text, or what matches, has come since the last time; and returns what came up to its end. */
  until(text: string | RegExp): Promise<string>;
  /** Everything so far, with its control sequences. */
  readonly raw: () => string;
  /** Its exit code. */
  readonly ended: Promise<number>;
  readonly kill: () => void;
}

const PATIENCE_MS = 30_000;

export function openTerminal(command: readonly string[], options: TerminalOptions = {}): Terminal {
  const { env = {}, cwd = '/', rows = 40, columns = 120 } = options;
  const { PATH = '', HOME = '/' } = process.env;
  const child = spawn('python3', ['-c', BRIDGE, String(rows), String(columns), ...command], {
    cwd,
    env: { PATH, HOME, TERM: 'xterm', ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let [raw, read] = ['', 0];
  child.stdin.on('error', () => {});
  child.stdout.setEncoding('utf8').on('data', (text: string) => void (raw += text));
  const ended = once(child, 'close').then(([code]) => code as number);
  return {
    type: (text) => void child.stdin.write(text),
    until: async (text) => {
      const end = (shown: string): number => {
        if (typeof text === 'string') return shown.indexOf(text) === -1 ? -1 : shown.indexOf(text) + text.length;
        const match = text.exec(shown);
        return match === null ? -1 : match.index + match[0].length;
      };
      for (const start = Date.now(); ; await sleep(10)) {
        const shown = screenText(raw).slice(read);
        const at = end(shown);
        if (at !== -1) {
          read += at;
          return shown.slice(0, at);
        }
        if (Date.now() > start + PATIENCE_MS) throw new Error(`It did not show ${String(text)}, but ${shown}`);
      }
    },
    raw: () => raw,
    ended,
    kill: () => child.kill('SIGKILL'),
  };
}

/** What the line editor does to draw a line anew is left out, and each time that it does so begins a line. */
const screenText = (raw: string): string =>
  stripVTControlCharacters(raw.replaceAll('\u001b[0J', '\n').replaceAll('\r\n', '\n').replaceAll('\r', ''));
