/**
 * Backups of projects on added servers, and where they can be restored: on a server chosen by name or by label, and
 * nowhere else.
 */
import { rmSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type AddedServer, startAddedServer, variableWith } from '../support/added-server.js';
import { makeFolder } from '../support/folder.js';
import { endEverything, runProgram, startServe, preparedDataDir } from '../support/program.js';
import { debianMajors } from '../support/throwaway-postgres.js';

const folder = makeFolder('cdp-restored-');

/** Dumps need pg_dump of the server's major, which Debian's packages of the server bring. */
describe.runIf(debianMajors().length > 0)('with a running service', () => {
  let other: AddedServer;
  let dataDir: string;
  beforeAll(async () => {
    other = await startAddedServer();
    dataDir = await preparedDataDir();
    const variable = variableWith(other.url);
    await startServe(['--data-dir', dataDir], { env: { [variable]: other.url } });
    await run('server', 'add', 'eu-1', '--url-env', variable, '--label', 'region=eu');
  });
  afterAll(async () => {
    await endEverything();
    await other.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const run = (...args: string[]) => runProgram([...args, '--data-dir', dataDir], { cwd: folder });

  const serverOf = async (name: string): Promise<string | undefined> => {
    const projects = JSON.parse((await run('project', 'list', '--json')).stdout) as { name: string; server: string }[];
    return projects.find((project) => project.name === name)?.server;
  };

  it('restores a project of an added server there, by the name of the server and by its label', async () => {
    await run('project', 'create', 'shop', '--server', 'eu-1');
    expect((await run('backup', 'shop.cdp', '--project', 'shop')).code).toBe(0);
    const options = { 'by-name': ['--server', 'eu-1'], 'by-label': ['--label', 'region=eu'] };
    for (const [name, where] of Object.entries(options)) {
      const restored = await run('restore', 'shop.cdp', '--project', 'shop', '--as', name, ...where);
      expect([restored.code, restored.stdout]).toEqual([0, `Project ${name} restored: 0 tables, 0 rows\n`]);
      expect(await serverOf(name)).toBe('eu-1');
    }
  });

  it('restores the missing projects and does not touch the untouched project of the first start', async () => {
    await run('backup', 'all.cdp');
    await run('project', 'delete', 'shop', '--yes');
    const restored = await run('restore', 'all.cdp', '--missing', '--label', 'region=eu');
    expect([restored.code, restored.stdout]).toEqual([0, 'Project shop restored: 0 tables, 0 rows\n']);
    expect(await serverOf('shop')).toBe('eu-1');
  });

  it('refuses a server that does not exist, is closed or cannot hold the project, and restores nothing', async () => {
    await run('project', 'create', 'files', '--server', 'default');
    await run('backup', 'files.cdp', '--project', 'files');
    const refused = async (file: string, ...where: string[]) => {
      const { code, stderr } = await run('restore', `${file}.cdp`, '--project', file, '--as', 'nowhere', ...where);
      expect(code).not.toBe(0);
      expect(await serverOf('nowhere')).toBeUndefined();
      return stderr;
    };
    expect(await refused('shop', '--server', 'eu-2')).toContain('There is no server "eu-2"');
    expect(await refused('shop', '--label', 'region=us')).toContain('No server with region=us accepts another project');
    expect(await refused('files', '--server', 'eu-1')).toContain('has the files of an embedded server');
    await run('server', 'close', 'eu-1');
    expect(await refused('shop', '--server', 'eu-1')).toContain('The server "eu-1" accepts no more projects');
  });
});
