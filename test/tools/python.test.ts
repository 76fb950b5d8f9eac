/**
 * The Python package, with Debian's Python: its own tests against the real service, its types, what pip installs, and
 * loads that are killed.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, expect, it, onTestFinished } from 'vitest';
import { VERSION } from '../../src/version.js';
import { blocks, read, root } from '../docs/markdown.js';
import { endEverything, firstToken, freePort, preparedDataDir, startServe } from '../support/program.js';
import { call, startOwnService } from '../support/service.js';

const run = promisify(execFile);
const python = '/usr/bin/python3';
const folder = join(root, 'python');

afterAll(endEverything);

async function withService(work: (env: NodeJS.ProcessEnv) => Promise<void>): Promise<void> {
  // A feed of changes needs a server of the project's own.
  const service = await startOwnService();
  try {
    const { token } = await service.project();
    await work({ PATH: process.env.PATH, CDP_URL: service.url, CDP_TOKEN: token, PYTHONPATH: join(folder, 'src') });
  } finally {
    await service.close();
  }
}

it('passes its own tests', () =>
  withService(async (env) => {
    const args = ['-W', 'error::ResourceWarning', '-m', 'unittest', 'discover', '-s', join(folder, 'tests')];
    const { stderr } = await run(python, args, { env, maxBuffer: 16 * 1024 * 1024 });
    expect(stderr).toMatch(/Ran \d\d+ tests[^]*\nOK\n$/);
  }));

it('passes mypy --strict', async () => {
  const cache = await mkdtemp(join(tmpdir(), 'cdp-mypy-'));
  onTestFinished(() => rm(cache, { recursive: true, force: true }));
  const args = ['-m', 'mypy', '--strict', '--config-file', 'pyproject.toml', '--cache-dir', cache, 'src'];
  const { stdout } = await run(python, args, { cwd: folder });
  expect(stdout).toContain('Success: no issues found');
});

it('gives each method the types and the help of its operation', async () => {
  const place = await mkdtemp(join(tmpdir(), 'cdp-types-'));
  onTestFinished(() => rm(place, { recursive: true, force: true }));
  const program = `from cdp_data_engine import AsyncCdpClient, CdpClient
async def use(a: AsyncCdpClient, c: CdpClient) -> None:
    reveal_type(c.delete("t", [{"id": 1}], by="id"))
    reveal_type(await a.receipt("t", "k", settle=True))
    c.query("SELECT 1", readonly=True)
    c.drop_table(1)
    a.drop_table("t")
`;
  const env = { MYPYPATH: join(folder, 'src'), PYTHONPATH: join(folder, 'src') };
  const args = ['-m', 'mypy', '--strict', '--python-version', '3.9', '--cache-dir', place, '-c', program];
  const { stdout: types } = await run(python, args, { env }).catch((error: unknown) => error as { stdout: string });
  expect(types.match(/(?<=:)\d+: (?:note: R|error: ).*/g)).toEqual([
    '3: note: Revealed type is "builtins.int"',
    '4: note: Revealed type is "builtins.dict[builtins.str, Any]"',
    '5: error: Unexpected keyword argument "readonly"; did you mean "read_only"?  [call-arg]',
    '6: error: Argument 1 has incompatible type "int"; expected "str"  [arg-type]',
    '7: error: Value of type "Coroutine[Any, Any, Dict[str, Any]]" must be used  [unused-coroutine]',
  ]);
  for (const client of ['CdpClient', 'AsyncCdpClient']) {
    const help = `import cdp_data_engine; help(cdp_data_engine.${client}.add_column)`;
    const { stdout } = await run(python, ['-c', help], { env });
    expect(stdout).toContain(
      `add_column(self, table: 'str', name: 'str', type: 'str', *, dry_run: 'bool' = False, **more: 'Any') -> 'Response'
    :param more: \`\`comment\`\`, \`\`unique\`\``,
    );
  }
});

it('can be installed by pip, with its types and the version of the service', async () => {
  const copy = await mkdtemp(join(tmpdir(), 'cdp-pip-'));
  onTestFinished(() => rm(copy, { recursive: true, force: true }));
  await cp(folder, join(copy, 'python'), { recursive: true });
  const target = join(copy, 'installed');
  const args = ['-m', 'pip', 'install', '--no-build-isolation', '--no-deps', '--no-index', '--target', target, '.'];
  await run(python, args, { cwd: join(copy, 'python') });
  const program = `import cdp_data_engine as c, os
print(c.__version__, c.__file__, os.path.exists(os.path.join(os.path.dirname(c.__file__), "py.typed")))`;
  const { stdout } = await run(python, ['-c', program], { cwd: copy, env: { PYTHONPATH: target } });
  expect(stdout).toBe(`${VERSION} ${join(target, 'cdp_data_engine/__init__.py')} True\n`);
});

it('gives a wheel of the same bytes wherever and whenever it is built, as CONTRIBUTING.md says', async () => {
  const wheels: Buffer[] = [];
  for (const place of ['one', 'another/place of it']) {
    const above = await mkdtemp(join(tmpdir(), 'cdp-wheel-'));
    onTestFinished(() => rm(above, { recursive: true, force: true }));
    await cp(folder, join(above, place), {
      recursive: true,
      filter: (path) => !/__pycache__|egg-info|\/build/.test(path),
    });
    const args = ['-m', 'pip', 'wheel', '--no-build-isolation', '--no-deps', '--no-index', '--wheel-dir', above, '.'];
    const env = { ...process.env, SOURCE_DATE_EPOCH: '1777930200' };
    await run(python, args, { cwd: join(above, place), env });
    wheels.push(await readFile(join(above, `cdp_data_engine-${VERSION}-py3-none-any.whl`)));
  }
  expect(wheels[0]?.equals(wheels[1] ?? Buffer.of())).toBe(true);
});

it('prints what docs/python.md says', () =>
  withService(async (env) => {
    const program = blocks(read('docs/python.md'))
      .filter(({ language }) => language === 'python')
      .map(({ text }) => text)
      .join('\n');
    const said = [...program.matchAll(/print\(.*\)  # (.+)$/gm)].map(([, text]) => text);
    expect(said.length).toBeGreaterThan(8);
    const { stdout } = await run(python, ['-c', program], { env });
    expect(stdout.trimEnd().split('\n')).toEqual(said);
  }));

/** Runs tests/load.py, and calls `onBatch` with the number of batches so far. */
async function load(env: NodeJS.ProcessEnv, args: readonly string[], onBatch?: (count: number, pid: number) => void) {
  const child = spawn(python, [join(folder, 'tests/load.py'), ...args], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
    onBatch?.(output.split('\n').length - 1, child.pid as number);
  });
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
  return { code, signal, lastLine: output.trimEnd().split('\n').at(-1) };
}

const COUNT = 'SELECT count(*) AS rows, count(DISTINCT n) AS different FROM loaded';

it('loses and duplicates nothing if the service is killed during an insert', async () => {
  const dataDir = await preparedDataDir();
  const args = ['--data-dir', dataDir, '--port', String(await freePort())];
  const first = await startServe(args);
  const token = await firstToken(dataDir);
  const env = { PATH: process.env.PATH, CDP_URL: first.url, CDP_TOKEN: token, PYTHONPATH: join(folder, 'src') };
  let second: ReturnType<typeof startServe> | undefined;
  const { lastLine } = await load(env, ['insert'], (count) => {
    if (count >= 20) second ??= first.end('SIGKILL').then(() => startServe(args));
  });
  expect(lastLine).toBe('20000 inserted, True');
  const { url } = await (second as ReturnType<typeof startServe>);
  const response = await call(url, 'POST', '/api/cdp/sql', { token, body: { sql: COUNT } });
  expect(response.body.rows).toEqual([{ rows: 20_000, different: 20_000 }]);
});

it('stores each item of a dlt load once, even if it is killed and run again with other batches', () =>
  withService(async (env) => {
    const killed = await load(env, ['dlt', '250'], (count, pid) => {
      if (count === 20) process.kill(pid, 'SIGKILL');
    });
    expect(killed.signal).toBe('SIGKILL');
    expect(await load(env, ['dlt', '700'])).toMatchObject({ code: 0, lastLine: '19600' });
    const response = await call(env.CDP_URL ?? '', 'POST', '/api/cdp/sql', {
      token: env.CDP_TOKEN ?? null,
      body: { sql: COUNT },
    });
    expect(response.body.rows).toEqual([{ rows: 20_000, different: 20_000 }]);
  }));
