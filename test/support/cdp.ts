/** The commands for people with a token, each run as a process in a folder of its own. */
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Ended, newFolder, type RunningProgram, startProgram } from './program.js';

export interface Person {
  /** Where the commands run, and where the person's configuration is. */
  readonly folder: string;
  start(args: readonly string[], input?: string): RunningProgram;
  run(args: readonly string[], input?: string): Promise<Ended>;
  /** What a command prints that must succeed. */
  output(...args: string[]): Promise<string>;
  write(name: string, content: string | Uint8Array): Promise<string>;
  read(name: string): Promise<string>;
  exists(name: string): Promise<boolean>;
}

/** @param env such as CDP_URL and CDP_TOKEN */
export async function person(env: Record<string, string> = {}): Promise<Person> {
  const folder = await newFolder();
  const home = { XDG_CONFIG_HOME: join(folder, 'config'), XDG_STATE_HOME: join(folder, 'state') };
  const start: Person['start'] = (args, input) =>
    startProgram(args, { cwd: folder, env: { ...home, ...env }, ...(input === undefined ? {} : { input }) });
  const run: Person['run'] = (args, input) => start(args, input).ended;
  return {
    folder,
    start,
    run,
    output: async (...args) => {
      const { code, stdout, stderr } = await run(args);
      if (code !== 0) throw new Error(`cdp ${args.join(' ')} ended with ${code}: ${stderr}`);
      return stdout;
    },
    write: async (name, content) => {
      await writeFile(join(folder, name), content);
      return join(folder, name);
    },
    read: (name) => readFile(join(folder, name), 'utf8'),
    exists: (name) =>
      stat(join(folder, name)).then(
        () => true,
        () => false,
      ),
  };
}
