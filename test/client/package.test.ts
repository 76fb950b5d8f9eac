/** The client as a package of its own: packed, unpacked into an empty folder, imported, and type-checked. */
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { compile } from '../support/compile.js';
import { endEverything, newFolder, projectRoot } from '../support/program.js';
import { startTestService, type TestService } from '../support/service.js';

const run = promisify(execFile);
const source = join(projectRoot, 'packages', 'client');

interface Package {
  version: string;
  dependencies?: object;
}
const packageIn = (folder: string) => JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Package;

let service: TestService;
let folder: string;
let files: string[];
beforeAll(async () => {
  service = await startTestService();
  folder = await newFolder();
  const { stdout } = await run('npm', ['pack', '--json', '--foreground-scripts=false', '--pack-destination', folder], {
    cwd: source,
  });
  const packed = JSON.parse(stdout.slice(stdout.search(/^[[{]/m))) as Record<
    string,
    { filename: string; files: { path: string }[] }
  >;
  const [{ filename, files: list }] = Object.values(packed) as [{ filename: string; files: { path: string }[] }];
  files = list.map(({ path }) => path);
  const own = join(folder, 'node_modules', 'cdp-data-engine-client');
  mkdirSync(own, { recursive: true });
  await run('tar', ['-xzf', join(folder, filename), '--strip-components', '1', '-C', own]);
});
afterAll(async () => {
  await endEverything();
  await service.close();
});

it("has the version of the service, no dependencies, and only the client's files", () => {
  const { version, dependencies } = packageIn(source);
  expect([version, dependencies]).toEqual([packageIn(projectRoot).version, undefined]);
  const known = /^(?:package\.json|README\.md|LICENSE|dist\/(?:client|contract)\/.+\.(?:js|d\.ts))$/;
  expect(files.filter((file) => !known.test(file))).toEqual([]);
  expect(files.length).toBeLessThan(110);
});

it('inserts, and compiles', async () => {
  const project = await service.project();
  await project.table('people', { email: 'TEXT' });
  const file = join(folder, 'program.ts');
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  writeFileSync(
    file,
    `import { CdpClient, type InsertResult } from 'cdp-data-engine-client';
     declare const process: { env: Record<string, string> };
     const cdp = new CdpClient({ url: process.env.URL ?? '', token: process.env.TOKEN ?? '' });
     const result: InsertResult = await cdp.insert('people', [{ email: 'ada@example.com' }]);
     console.log(result.inserted);`,
  );
  expect(compile([file])).toEqual([]);
  const env = { PATH: process.env.PATH, URL: service.url, TOKEN: project.token };
  expect((await run(process.execPath, [join(folder, 'program.js')], { env })).stdout).toBe('1\n');
});
