/**
 * Fetches node-postgres' own tests, which no package of npm contains, from Debian's source package `node-postgres`,
 * with a configuration of apt of its own. Where they are not to be had, the test says so:
 * test/tools/node-postgres-suite.test.ts.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { root } from './prepare.mjs';

/** Debian keeps it in sid until it has a later one. */
const TARBALL = /^node-postgres_8\.16\.3\b.*\.orig\.tar\.gz$/;
const place = join(root, 'test/tools/clients/node_modules/node-postgres-suite');

const folder = mkdtempSync(join(tmpdir(), 'cdp-apt-'));
const run = (command, ...args) => spawnSync(command, args, { cwd: folder, encoding: 'utf8' }).stdout ?? '';
try {
  const targets = run('apt-get', 'indextargets', '--format', '$(REPO_URI)', 'Created-By: Packages').split('\n');
  const mirror = targets.find((uri) => /\/debian\/$/.test(uri));
  if (mirror !== undefined) {
    for (const name of ['parts', 'lists/partial', 'cache/archives/partial']) {
      mkdirSync(join(folder, name), { recursive: true });
    }
    const source = `Types: deb-src\nURIs: ${mirror}\nSuites: sid\nComponents: main\n`;
    const key = 'Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n';
    writeFileSync(join(folder, 'parts/sid.sources'), source + key);
    const options = [
      'Dir::Etc::SourceList=/dev/null',
      `Dir::Etc::SourceParts=${folder}/parts`,
      `Dir::State::lists=${folder}/lists`,
      `Dir::Cache=${folder}/cache`,
      'APT::Sandbox::User=',
    ].flatMap((option) => ['-o', option]);
    run('apt-get', ...options, 'update');
    // It has further parts, which not every mirror has and nobody needs here.
    run('apt-get', ...options, '--download-only', 'source', 'node-postgres');
    const tarball = readdirSync(folder).find((name) => TARBALL.test(name));
    if (tarball !== undefined) {
      rmSync(place, { recursive: true, force: true });
      mkdirSync(place, { recursive: true });
      run('tar', '-C', place, '--strip-components=1', '-xzf', tarball);
      // Its tests use the first version of this one.
      mkdirSync(join(place, 'node_modules'));
      symlinkSync('../../pg-copy-streams-0', join(place, 'node_modules/pg-copy-streams'));
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
