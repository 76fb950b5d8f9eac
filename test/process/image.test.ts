/** The image, as far as its Dockerfile can run without Docker: what it installs, and a service that starts from it. */
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdir, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { VERSION } from '../../src/version.js';
import { startAddedServer } from '../support/added-server.js';
import { copyTree, git } from '../support/copied-tree.js';
import { instructionsOf, runDockerfile, type Stage } from '../support/dockerfile.js';
import { endEverything, newFolder, projectRoot, startServe } from '../support/program.js';
import { call } from '../support/service.js';

const DATE = '2026-05-04T12:00:00Z';

const read = (file: string) => readFileSync(join(projectRoot, file), 'utf8');
const docker = read('deploy/Dockerfile');

describe('the Dockerfile', () => {
  it('builds both stages on one base image of an exact version, which a digest can replace', () => {
    const [first] = instructionsOf(docker);
    expect(first).toEqual([
      'ARG',
      expect.stringMatching(/^NODE_IMAGE=node:22\.\d+\.\d+-trixie-slim(?:@sha256:[0-9a-f]{64})?$/),
    ]);
    const bases = instructionsOf(docker).filter(([instruction]) => instruction === 'FROM');
    expect(bases.map(([, base]) => base)).toEqual(['${NODE_IMAGE} AS package', '${NODE_IMAGE}']);
  });

  it('installs packages only from the lock file', () => {
    const commands = instructionsOf(docker).flatMap(([instruction, args]) =>
      instruction === 'RUN' ? args.split(/&&|;/) : [],
    );
    const installs = commands.filter((command) => /\bnpm (?:ci|i|install|add|exec)\b|\bnpx\b/.test(command));
    expect(installs).toHaveLength(2);
    for (const command of installs) expect(command.trim()).toMatch(/^npm ci --ignore-scripts/);
  });

  it('has programs for backups of the server of compose.yaml', () => {
    const compose = read('deploy/compose.yaml');
    expect(/POSTGRES_CLIENT: (\d+)/.exec(compose)?.[1]).toBe(/image: postgres:(\d+)$/m.exec(compose)?.[1]);
    expect(docker).toContain('postgresql-client-${POSTGRES_CLIENT}');
  });
});

describe('what the steps of the Dockerfile make', () => {
  let stage: Stage;
  let program: string;
  let commit: string;
  beforeAll(async () => {
    const folder = await newFolder();
    const context = join(folder, 'context');
    await copyTree(context);
    await git(context, DATE, 'init', '--quiet');
    await git(context, DATE, 'add', '--all');
    await git(context, DATE, 'commit', '--quiet', '--message', 'an image');
    commit = (await git(context, DATE, 'rev-parse', 'HEAD')).slice(0, 8);
    // Whatever git has must reach the build, or it would call the tree dirty.
    const ignore = join(context, 'deploy/Dockerfile.dockerignore');
    expect(await git(context, DATE, 'ls-files', '--cached', '--ignored', '--exclude-from', ignore)).toBe('');
    await mkdir(join(folder, 'image'));
    stage = await runDockerfile(docker, context, join(folder, 'image'));
    program = join(stage.root, 'opt/cdp');
  });
  afterAll(endEverything);

  it('has each package that the service needs in the version of the lock file, and no other', () => {
    const { packages } = JSON.parse(read('package-lock.json')) as {
      packages: Record<string, { version: string; dev?: true; optional?: true; devOptional?: true }>;
    };
    const wanted = Object.entries(packages)
      .filter(([path, { dev, optional, devOptional }]) => path !== '' && !dev && !optional && !devOptional)
      .map(([path, { version }]) => `${path} ${version}`);
    expect(wanted.length).toBeGreaterThan(50);
    // Folders of packages, not those that packages have inside.
    const manifests = readdirSync(join(program, 'node_modules'), { recursive: true, encoding: 'utf8' })
      .map((path) => `node_modules/${path}`)
      .filter((path) => /(?:^|\/)node_modules\/(?:@[^/]+\/)?[^/@]+\/package\.json$/.test(path));
    const installed = manifests.map((path) => {
      const { version } = JSON.parse(readFileSync(join(program, path), 'utf8')) as { version: string };
      return `${path.replace(/\/package\.json$/, '')} ${version}`;
    });
    expect(installed.sort()).toEqual(wanted.sort());
  });

  it('starts by its entrypoint, says the commit, and creates a table', async () => {
    const [entrypoint = ''] = stage.entrypoint;
    const cdp = join(stage.root, 'usr/local/bin', entrypoint);
    expect(await realpath(cdp)).toBe(join(await realpath(program), 'dist/cli/bin.js'));
    const server = await startAddedServer();
    const env = {
      ...stage.environment,
      DATABASE_URL: server.url,
      CDP_SECRET: 'for the image, more than 32 characters',
    };
    const run = async (...args: string[]) =>
      (await promisify(execFile)(cdp, args, { env: { PATH: process.env.PATH, ...env } })).stdout;
    try {
      expect(await run('--version')).toBe(`${VERSION} (${commit}, 2026-05-04)\n`);
      const service = await startServe([], { program, env: { ...env, CDP_HOST: '127.0.0.1' } });
      await run('project', 'create', 'shop');
      const { token } = JSON.parse(await run('token', 'create', '--project', 'shop', '--json')) as { token: string };
      const body = { table_name: 'customers', columns: [{ name: 'email', type: 'TEXT' }] };
      expect((await call(service.url, 'POST', '/api/cdp/schema/table', { token, body })).status).toBe(201);
      expect((await fetch(`${service.url}/console/`)).status).toBe(200);
      expect((await service.end()).code).toBe(0);
    } finally {
      await server.close();
    }
  });
});
