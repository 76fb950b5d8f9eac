/** The scripts of `cdp completion`, each in its shell. */
import { execFile } from 'node:child_process';
import { chmod, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { person, type Person } from '../support/cdp.js';
import { endEverything, projectRoot } from '../support/program.js';
import { startTestService, type TestService } from '../support/service.js';
import { openTerminal } from '../support/terminal.js';

let service: TestService;
let ada: Person;
let env: Record<string, string>;
beforeAll(async () => {
  service = await startTestService();
  const project = await service.project();
  await project.table('people', { name: 'TEXT' });
  ada = await person();
  await chmod(join(projectRoot, 'dist/cli/bin.js'), 0o755);
  await symlink(join(projectRoot, 'dist/cli/bin.js'), join(ada.folder, 'cdp'));
  await ada.write('data.csv', 'a\n1\n');
  env = {
    PATH: `${ada.folder}:${process.env.PATH}`,
    HOME: ada.folder,
    CDP_URL: service.url,
    CDP_TOKEN: project.token,
  };
});
afterAll(async () => {
  await endEverything();
  await service.close();
});

/** What the shell prints. */
const run = async (shell: string, ...args: string[]): Promise<string> =>
  (await promisify(execFile)(shell, args, { cwd: ada.folder, env })).stdout;

it('completes in bash', async () => {
  const replies = (...words: string[]) =>
    run(
      'bash',
      '--norc',
      '-c',
      'source <(cdp completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cdp cdp; printf "%s\\n" "${COMPREPLY[@]}"',
      'bash',
      'cdp',
      ...words,
    );
  expect(await replies('des')).toBe('describe\n');
  // The names of tables are asked for a short time only, so that a key press never hangs.
  await expect.poll(() => replies('describe', 'peo'), { timeout: 60_000, interval: 500 }).toBe('people\n');
  expect(await replies('sql', '--nd')).toBe('--ndjson\n');
  expect(await replies('import', 'da')).toBe('\n');
  expect(await run('bash', '--norc', '-c', 'source <(cdp completion bash); complete -p cdp')).toContain('-o default');
});

it('completes in zsh', async () => {
  const terminal = openTerminal(['zsh', '-f', '-i'], { cwd: ada.folder, env: { ...env, PS1: '$ ' } });
  terminal.type('autoload -U compinit; compinit -u -D; source <(cdp completion zsh); echo rea""dy\r');
  await terminal.until('ready');
  terminal.type('cdp des\t');
  await terminal.until('cdp describe ');
  terminal.type('peo\t');
  await terminal.until('people ');
  terminal.type('\u0015cdp sql --\t');
  await terminal.until('Print an array of objects');
  terminal.type('\u0015cdp import da\t');
  await terminal.until('data.csv ');
  terminal.kill();
});

it('completes in fish', async () => {
  const replies = (line: string) =>
    run('fish', '--no-config', '-c', `cdp completion fish | source; complete -C '${line}'`);
  expect(await replies('cdp des')).toBe('describe\n');
  expect(await replies('cdp describe peo')).toBe('people\n');
  expect(await replies('cdp sql --nd')).toBe('--ndjson\tPrint one object per line\n');
  expect(await replies('cdp import da')).toContain('data.csv');
});
