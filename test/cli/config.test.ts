/** `cdp config`, `--help` and `--version`: what a person reads before starting anything. */
import { mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { projectCommand } from '../../src/cli/project.js';
import { tokenCommand } from '../../src/cli/token.js';
import type { Setting, Shown } from '../../src/setting-kinds.js';
import { type SettingName, SETTINGS } from '../../src/settings.js';
import { VERSION } from '../../src/version.js';
import { runProgram } from '../support/program.js';

let cwd: string;
beforeAll(async () => {
  cwd = await realpath(await mkdtemp(join(tmpdir(), 'cdp-cli-')));
});
afterAll(() => rm(cwd, { recursive: true }));

const ROWS = Object.values(SETTINGS as Record<SettingName, Setting<Shown>>);

describe('cdp config', () => {
  it('shows the source of each value, flag before environment before file before default, and no secrets', async () => {
    await writeFile(join(cwd, 'cdp.config.json'), '{ "port": 1, "host": "from-file", "secret": "hidden in the file" }');
    const secrets = { CDP_SECRET: 'hidden, of more than 32 characters', DATABASE_URL: 'postgres://me:hidden@h/d' };
    const lists = { CDP_RATE_LIMIT: '5000/1m', CDP_CORS_ORIGINS: 'https://a.example, https://b.example' };
    const env = { ...secrets, ...lists, CDP_PORT: '2', CDP_HOST: 'from-environment', CDP_WAIT_MS: '9' };
    const { code, stdout, stderr } = await runProgram(['config', '--port', '3', '--json'], { cwd, env });
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).not.toContain('hidden');
    const { settings } = JSON.parse(stdout) as { settings: { name: string }[] };
    expect(settings.map(({ name }) => name)).toEqual(ROWS.map(({ flag }) => flag));
    const shown = Object.fromEntries(settings.map((row) => [row.name, row]));
    expect(shown).toMatchObject({
      port: { env: 'CDP_PORT', value: 3, source: 'flag' },
      host: { value: 'from-environment', source: 'environment' },
      secret: { value: '(secret)', source: 'environment' },
      'database-url': { env: 'DATABASE_URL', value: '(secret)', source: 'environment' },
      'data-dir': { value: join(cwd, '.cdp'), source: 'default' },
      'rate-limit': { value: '5000/1m', source: 'environment' },
      'cors-origins': { value: 'https://a.example, https://b.example', source: 'environment' },
      'trust-proxy': { value: null, source: 'default' },
      'metrics-port': { value: null, source: 'default' },
    });

    const table = await runProgram(['config', '--port', '3'], { cwd, env });
    expect(table.stdout).toMatch(/^SETTING +ENVIRONMENT +VALUE +FROM$/m);
    expect(table.stdout).toMatch(/^port +CDP_PORT +3 +flag$/m);
    expect(table.stdout).toMatch(/^metrics-port +CDP_METRICS_PORT +- +default$/m);
    expect(table.stdout.trimEnd().split('\n')).toHaveLength(ROWS.length + 1);
    expect(table.stdout).not.toContain('hidden');
  });

  it('reads another file if an option names it', async () => {
    const other = join(cwd, 'other.json');
    await writeFile(other, '{ "port": 7 }');
    const { stdout } = await runProgram(['config', '--config', other, '--json'], { cwd });
    expect(stdout).toContain('{"name":"port","env":"CDP_PORT","value":7,"source":"file"}');
  });
});

describe('help', () => {
  it('of the program lists the commands', async () => {
    const { code, stdout } = await runProgram(['--help']);
    expect(code).toBe(0);
    for (const command of ['serve', 'project', 'token', 'config'])
      expect(stdout).toMatch(new RegExp(`^  ${command} `, 'm'));
  });

  it.each(['serve', 'config'])(
    'of %s lists every setting with its flag, variable, default and description',
    async (name) => {
      const { code, stdout } = await runProgram([name, '--help']);
      expect(code).toBe(0);
      const text = stdout.replace(/\s+/g, ' ');
      for (const { flag, value, env, describe: description, default: preset } of ROWS) {
        const shown =
          preset === null || String(preset) === '' ? `(env: ${env})` : `(env: ${env}, default: ${String(preset)})`;
        expect(text).toContain(`--${flag} <${value}> ${description} ${shown}`);
      }
    },
  );

  it('of the operator commands lists what they can do, each with --json and --data-dir', () => {
    const verbs = [projectCommand(), tokenCommand()].map((command) =>
      command.commands.map((verb) => {
        expect(verb.helpInformation()).toMatch(/--data-dir <DIR>[^]*--json/);
        return `${command.name()} ${verb.name()}`;
      }),
    );
    expect(verbs).toEqual([
      [
        'project create',
        'project list',
        'project rename',
        'project activate',
        'project deactivate',
        'project move',
        'project moves',
        'project archive',
        'project repair',
        'project quota',
        'project own-schemas',
        'project delete',
      ],
      ['token create', 'token list', 'token show', 'token revoke'],
    ]);
  });

  it('appears if no command is given, with exit code 2', async () => {
    const { code, stderr } = await runProgram([]);
    expect(code).toBe(2);
    expect(stderr).toContain('Usage: cdp [options] [command]');
  });

  it('--version prints the version of the package and what was built', async () => {
    // test/process/release.test.ts has the exact words of each build; the sources that run here have none.
    expect((await runProgram(['--version'])).stdout).toMatch(
      new RegExp(
        `^${VERSION.replaceAll('.', '\\.')} \\((?:[0-9a-f]{8}, \\d{4}-\\d\\d-\\d\\d|sources [0-9a-f]{8})\\b.*\\)\n$`,
      ),
    );
  });
});
