/** `cdp server`: on an embedded installation, whose running service does the work, and on a Postgres given by URL. */
import { dirname, join } from 'node:path';
import { writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type AddedServer, startAddedServer } from '../support/added-server.js';
import { type Ended, endEverything, preparedDataDir, runProgram, startServe } from '../support/program.js';
import { startTestService, type TestService } from '../support/service.js';

let other: AddedServer;
beforeAll(async () => {
  other = await startAddedServer();
});
afterAll(async () => {
  await endEverything();
  await other.close();
});

const ended = ({ code, stdout, stderr }: Ended) => [code, stdout, stderr];

describe('with a running service', () => {
  let dataDir: string;
  beforeAll(async () => {
    dataDir = await preparedDataDir();
    await startServe(['--data-dir', dataDir]);
    await writeFile(join(dirname(dataDir), 'eu.url'), `${other.url}\n`);
  });

  const run = (...args: string[]) => runProgram([...args, '--data-dir', dataDir], { cwd: dirname(dataDir) });

  it('adds a server by a URL file, lists, checks, changes, fills, drains and removes it', async () => {
    const file = join(dirname(dataDir), 'eu.url');
    const options = ['--label', 'region=eu', '--label', 'tier=a', '--max-bytes', '2TB', '--max-projects', '9'];
    const added = await run('server', 'add', 'eu-1', '--url-file', 'eu.url', ...options);
    // The servers of the tests flush nothing.
    expect(ended(added)).toEqual([0, expect.stringMatching(/^PROBLEM +durability[^]*^Server eu-1 added\n$/m), '']);
    const [first, ...more] = (await run('server', 'list')).stdout.trimEnd().split('\n');
    expect(first).toMatch(/^NAME +STATUS +PROJECTS +WEIGHT +BOUNDS +LABELS +POSTGRES +SIZE +URL$/);
    expect(more).toEqual([
      expect.stringMatching(/^default +active +1 +1 +- +- +not checked +\d+\.\d MB +-$/),
      expect.stringMatching(
        `^eu-1 +active +0 +1 +9 projects, 2\\.0 TB +region=eu tier=a +${other.major}\\.\\S+ +0\\.0 MB +file:${file}$`,
      ),
    ]);
    const [checked] = JSON.parse((await run('server', 'check', 'eu-1', '--json')).stdout) as { findings: object[] }[];
    expect(checked?.findings).toContainEqual(expect.objectContaining({ subject: 'advisory locks', health: 'ok' }));
    expect((await run('server', 'check')).stdout).toMatch(
      /^Server default\n[^]*^Server eu-1\n[^]*^(ok|WARNING) +latency /m,
    );
    const cleared = await run('server', 'check', 'eu-1', '--clear', '--yes');
    expect(ended(cleared)).toEqual([0, 'Nothing was left on eu-1\n', '']);
    const set = ['--no-labels', '--weight', '2.5', '--max-bytes', 'none', '--max-connections', '20'];
    const changed = await run('server', 'set', 'eu-1', ...set, '--json');
    expect(JSON.parse(changed.stdout)).toMatchObject({
      ...{ labels: {}, weight: 2.5, max_bytes: null, max_projects: 9, max_connections: 20 },
    });
    await run('server', 'set', 'eu-1', '--label', 'tier=b');
    const notIts = await run('server', 'set', 'eu-1', '--replica-file', 'eu.url', '--consistency', 'bounded');
    expect([notIts.code, notIts.stderr]).toEqual([2, expect.stringContaining(`file:${file} is not a standby`)]);
    const embedded = await run('server', 'set', 'default', '--replica-env', 'REPLICA');
    expect([embedded.code, embedded.stderr]).toEqual([2, expect.stringContaining('embedded Postgres has no replicas')]);
    const bounded = await run('server', 'set', 'eu-1', '--no-replicas', '--consistency', 'bounded', '--json');
    expect(JSON.parse(bounded.stdout)).toMatchObject({ replicas: [], consistency: 'bounded' });
    for (const [wrong, message] of [
      [['--weight', '0'], '--weight must be at least 0.01'],
      [['--max-projects', '0'], '--max-projects must be at least 1'],
      [
        ['--weight', '0', '--max-projects', '0'],
        '--weight must be at least 0.01 (and 1 more error)\n  --weight must be at least 0.01\n  --max-projects must be at least 1',
      ],
    ] as const) {
      expect(ended(await run('server', 'set', 'eu-1', ...wrong))).toEqual([2, '', `cdp: ${message}\n`]);
    }
    const create = (name: string, ...wish: string[]) => run('project', 'create', name, ...wish, '--json');
    expect(JSON.parse((await create('a', '--server', 'eu-1')).stdout)).toMatchObject({ server: 'eu-1' });
    expect(JSON.parse((await create('b', '--label', 'tier=b')).stdout)).toMatchObject({ server: 'eu-1' });
    expect(ended(await run('server', 'remove', 'eu-1'))).toEqual([
      ...[1, ''],
      'cdp: Projects live on the server "eu-1": a, b\nMove or delete them first.\n',
    ]);
    for (const [verb, status] of [
      ['drain', 'draining'],
      ['close', 'closed'],
    ] as const) {
      expect(ended(await run('server', verb, 'eu-1'))).toEqual([0, `Server eu-1 ${status}\n`, '']);
      expect((await create('c', '--server', 'eu-1')).stderr).toContain('The server "eu-1" accepts no more projects');
    }
    expect(ended(await run('server', 'activate', 'eu-1'))).toEqual([0, 'Server eu-1 active\n', '']);
    for (const name of ['a', 'b']) await run('project', 'delete', name, '--yes');
    expect(ended(await run('server', 'remove', 'eu-1'))).toEqual([0, 'Server eu-1 removed\n', '']);
  });

  it('needs the variable in the environment of the service, not of the command', async () => {
    const args = ['server', 'add', 'eu-1', '--url-env', 'EU_URL', '--data-dir', dataDir];
    const { code, stdout, stderr } = await runProgram(args, { env: { EU_URL: other.url } });
    expect(stderr).toBe(
      'cdp: The URL cannot be read: the environment of the service has no variable EU_URL\n' +
        'Every instance of the service needs the variable when it starts. A file is read immediately.\n',
    );
    expect([code, stdout]).toEqual([2, '']);
  });

  it.each([
    ['no place of the URL', ['add', 'x'], 'Give either --url-env or --url-file'],
    ['two places', ['add', 'x', '--url-env', 'A', '--url-file', 'b'], 'Give either --url-env or --url-file'],
    ['a label without a value', ['add', 'x', '--url-env', 'A', '--label', 'b'], '--label takes KEY=VALUE, not b'],
    ['a bound that is no number', ['set', 'default', '--max-projects', 'x'], '--max-projects takes a number'],
    ['a size without a unit', ['set', 'default', '--max-bytes', '5'], '--max-bytes must be a whole number with MB'],
    ['clearing all servers', ['check', '--clear', '--yes'], '--clear takes the name of one server'],
    ['clearing unasked', ['check', 'default', '--clear'], 'cannot be undone. Without a terminal it needs --yes'],
    ['nothing to change', ['set', 'default'], 'Specify a change'],
    ['a name that cannot be', ['add', 'No Name', '--url-env', 'A'], "A server's name must be 1 to 63 lowercase"],
    ['another engine', ['add', 'x', '--url-env', 'A', '--engine', 'mysql'], 'Allowed choices are postgres, citus'],
  ])('refuses %s', async (_what, args, message) => {
    const { code, stderr } = await run('server', ...args);
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
  });
});

describe('on a Postgres given by URL', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startTestService();
  });
  afterAll(() => service.close());

  it('reads the variable itself, and says that each instance needs it', async () => {
    const { databaseUrl, secret } = service.config;
    const env = { DATABASE_URL: databaseUrl ?? '', CDP_SECRET: secret ?? '', EU_URL: other.url };
    const added = await runProgram(['server', 'add', 'eu-1', '--url-env', 'EU_URL', '--dedicated'], { env });
    expect([added.code, added.stderr]).toEqual([0, '']);
    expect(added.stdout).toContain('Every instance of the service needs the variable EU_URL');
    expect((await service.engine.control.servers.list()).map(({ name, tenancy }) => [name, tenancy])).toEqual([
      ['default', 'shared'],
      ['eu-1', 'dedicated'],
    ]);
  });
});
