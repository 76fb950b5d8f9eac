/**
 * Fetches other people's tests of Postgres clients, which no package of npm or Debian contains, from Debian's source
 * packages, with a configuration of apt of its own. Where they are not to be had, the tests that run them say so:
 * test/tools/{node-postgres,psycopg2}-suite.test.ts.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { root } from './prepare.mjs';

const SOURCES = [
  // Debian keeps it in sid until it has a later one.
  { name: 'node-postgres', release: 'sid', tarball: /^node-postgres_8\.16\.3\b.*\.orig\.tar\.gz$/ },
  { name: 'psycopg2', release: 'trixie', tarball: /^psycopg2_2\.9\.10\b.*\.orig\.tar\.gz$/ },
];

const folderOf = (name) => join(root, 'test/tools/clients/node_modules', `${name}-suite`);

const folder = mkdtempSync(join(tmpdir(), 'cdp-apt-'));
const run = (command, ...args) => spawnSync(command, args, { cwd: folder, encoding: 'utf8' }).stdout ?? '';

function fetchAll(mirror) {
  for (const name of ['parts', 'lists/partial', 'cache/archives/partial']) {
    mkdirSync(join(folder, name), { recursive: true });
  }
  const releases = SOURCES.map(({ release }) => release).join(' ');
  const source = `Types: deb-src\nURIs: ${mirror}\nSuites: ${releases}\nComponents: main\n`;
  const key = 'Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n';
  writeFileSync(join(folder, 'parts/sources.sources'), source + key);
  const options = [
    'Dir::Etc::SourceList=/dev/null',
    `Dir::Etc::SourceParts=${folder}/parts`,
    `Dir::State::lists=${folder}/lists`,
    `Dir::Cache=${folder}/cache`,
    'APT::Sandbox::User=',
  ].flatMap((option) => ['-o', option]);
  run('apt-get', ...options, 'update');
  for (const { name, release, tarball } of SOURCES) {
    // It has further parts, which not every mirror has and nobody needs here.
    run('apt-get', ...options, '--download-only', '--target-release', release, 'source', name);
    const downloaded = readdirSync(folder).find((file) => tarball.test(file));
    if (downloaded === undefined) continue;
    rmSync(folderOf(name), { recursive: true, force: true });
    mkdirSync(folderOf(name), { recursive: true });
    run('tar', '-C', folderOf(name), '--strip-components=1', '-xzf', downloaded);
  }
}

try {
  const targets = run('apt-get', 'indextargets', '--format', '$(REPO_URI)', 'Created-By: Packages').split('\n');
  const mirror = targets.find((uri) => /\/debian\/$/.test(uri));
  if (mirror !== undefined) fetchAll(mirror);
  const nodePostgres = folderOf('node-postgres');
  // Its tests use the first version of this one.
  mkdirSync(join(nodePostgres, 'node_modules'), { recursive: true });
  rmSync(join(nodePostgres, 'node_modules/pg-copy-streams'), { force: true });
  symlinkSync('../../pg-copy-streams-0', join(nodePostgres, 'node_modules/pg-copy-streams'));
} finally {
  rmSync(folder, { recursive: true, force: true });
}
