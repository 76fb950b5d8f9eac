/** The rules that hold the code base together: which file may import which, and what only one place may do. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const src = fileURLToPath(new URL('../src/', import.meta.url));
const web = fileURLToPath(new URL('../console/src/', import.meta.url));

/** What each folder imports besides its own files, contract/ and the foundation: the next layer, not any lower one. */
const LAYERS: Readonly<Record<string, readonly string[]>> = {
  cli: ['service', 'export', 'import', 'client'],
  // The files at the top of src put the others together.
  service: ['http', 'postgres-port', 'engine', 'db', 'backup', 'tenancy', 'embedded', 'pg'],
  http: ['engine', 'moves', 'feed', 'db', 'codec'],
  'postgres-port': ['engine', 'pg'],
  engine: ['moves', 'feed', 'db', 'backup', 'tenancy', 'pg', 'codec'],
  moves: ['backup', 'tenancy', 'pg'],
  feed: ['db', 'tenancy', 'embedded', 'pg', 'codec'],
  db: ['tenancy', 'pg'],
  backup: ['tenancy', 'pg'],
  tenancy: ['embedded', 'pg'],
  embedded: ['pg'],
  pg: [],
  codec: [],
  export: ['import', 'client'],
  import: ['client'],
  client: [],
  contract: [],
};

/** Files that skip a layer. */
const EXCEPTIONS: readonly string[] = [
  // A draft of a backup is a leftover if its process is gone.
  'backup/backup.ts -> embedded',
  // A physical backup is the files of an embedded server.
  'backup/physical/physical.ts -> embedded',
  // If no Postgres starts, `cdp doctor` looks at the disk without an engine.
  'cli/doctor.ts -> engine',
  // Otherwise the engine looks at the machine, of which the servers know the limits.
  'engine/doctor/machine-findings.ts -> embedded',
  // The cells of a stream are read as those of an import.
  'engine/insert/stream/formats.ts -> import',
  // It puts the embedded servers and their reports into the engine.
  'engine/open-engine.ts -> embedded',
  // A backup is not an operation on a project: it reads the whole installation, from the machine itself.
  'http/api/admin-socket-routes.ts -> backup',
  // The API shows what the control database stores.
  'http/api/audit.ts -> tenancy',
  // A reader of changes is a role of Postgres.
  'http/api/changes.ts -> tenancy',
  // These, too, show what is stored there.
  'http/api/feed.ts -> tenancy',
  'http/api/projects.ts -> tenancy',
  'http/api/servers.ts -> tenancy',
  // The error exit turns everything that is thrown into an error code, also errors of Postgres.
  'http/response/error-exit.ts -> tenancy',
];

/** What every folder may import; these import only each other and `contract/`. */
const FOUNDATION: readonly string[] = [
  'counts.ts',
  'files.ts',
  'ip-address.ts',
  'log.ts',
  'promises.ts',
  'tasks.ts',
  'version.ts',
];

const CLIENT = 'client/';

interface Source {
  readonly path: string;
  readonly text: string;
  /** Our own files by their paths, packages by their names. */
  readonly imports: readonly string[];
  /** Those that are loaded together with the file. */
  readonly eager: readonly string[];
}

const IMPORT = /^(?:import|export)\s[^;]*?from '([^']+)'|^import '([^']+)'|\bimport\('([^']+)'\)/gm;

/** Excludes types, which do not exist at run time, and what `import()` loads later. */
const isEager = (statement: string): boolean => /^(?:import|export)\s(?!type\s)/.test(statement);

const filesOf = (folder: string, ending: RegExp): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => ending.test(path))
    .sort();

const sources: Source[] = filesOf(src, /\.ts$/).map((path) => {
  const text = readFileSync(join(src, path), 'utf8');
  const found = Array.from(text.matchAll(IMPORT), (match) => ({
    name: resolved(path, match.slice(1).find((name) => name !== undefined) ?? ''),
    isEager: isEager(match[0]),
  }));
  const imports = found.map(({ name }) => name);
  return { path, text, imports, eager: found.filter(({ isEager }) => isEager).map(({ name }) => name) };
});

/** The files of the console. They import from src as `../../src/…`. */
const ofConsole = filesOf(web, /\.tsx?$/).map((path) => {
  const text = readFileSync(join(web, path), 'utf8');
  const names = Array.from(text.matchAll(IMPORT), (match) => match.slice(1).find((name) => name !== undefined) ?? '');
  const imports = names.filter((name) => name.startsWith('.')).map((name) => normalize(join(dirname(path), name)));
  return { path, text, imports };
});

/** The path in src of one of our files; the name of a package. AssemblyScript omits the file extension. */
function resolved(from: string, name: string): string {
  return name.startsWith('.') ? `${normalize(join(dirname(from), name)).replace(/\.js$/, '')}.ts` : name;
}

/** The packages that are loaded together with any of the files. */
function packagesOf(...paths: string[]): string[] {
  const eager = new Map(sources.map((source) => [source.path, source.eager]));
  const seen = new Set(paths);
  for (const path of seen) for (const next of eager.get(path) ?? []) seen.add(next);
  return [...seen].filter((name) => !isOurs(name) && !name.startsWith('node:')).sort();
}

const isOurs = (name: string): boolean => name.endsWith('.ts');

/** The folder that a file counts as. */
function folderOf(path: string): string {
  return path.includes('/') ? (path.split('/')[0] ?? '') : 'service';
}

function mayImport(from: string, to: string): boolean {
  const [own, other] = [folderOf(from), folderOf(to)];
  const allowed = LAYERS[own];
  if (allowed === undefined) throw new Error(`${from} is in a folder that this test does not know`);
  if (FOUNDATION.includes(from)) return FOUNDATION.includes(to) || other === 'contract';
  return FOUNDATION.includes(to) || other === own || other === 'contract' || allowed.includes(other);
}

/** The files whose text matches, except those named. */
const filesWith = (pattern: RegExp, ...allowed: string[]): string[] =>
  sources
    .filter(({ path, text }) => pattern.test(text) && !allowed.some((place) => path.startsWith(place)))
    .map(({ path }) => path);

/** The first cycle of imports. */
function findCycle(): string[] | undefined {
  const imports = new Map(sources.map((source) => [source.path, source.imports.filter(isOurs)]));
  const done = new Set<string>();
  const visit = (path: string, way: readonly string[]): string[] | undefined => {
    if (way.includes(path)) return [...way.slice(way.indexOf(path)), path];
    if (done.has(path)) return undefined;
    for (const next of imports.get(path) ?? []) {
      const cycle = visit(next, [...way, path]);
      if (cycle !== undefined) return cycle;
    }
    done.add(path);
    return undefined;
  };
  return sources.map(({ path }) => visit(path, [])).find((cycle) => cycle !== undefined);
}

describe('imports', () => {
  it('resolve: every imported file of ours exists, and every file except the entry points is imported', () => {
    const paths = new Set(sources.map(({ path }) => path));
    const imported = new Set(sources.flatMap(({ imports }) => imports.filter(isOurs)));
    expect([...imported].filter((path) => !paths.has(path))).toEqual([]);
    expect([...paths].filter((path) => !imported.has(path))).toEqual([
      'cli/bin.ts',
      'client/index.ts',
      'codec/batch/assembly/encode.ts',
      'codec/results/assembly/rows.ts',
      // The programs of threads.
      'codec/results/encoder-thread.ts',
      'moves/pg-dump-worker.ts',
    ]);
  });

  it('go to the next layer, except for the listed exceptions', () => {
    const wrong = sources.flatMap(({ path, imports }) =>
      imports.filter((name) => isOurs(name) && !mayImport(path, name)).map((name) => `${path} -> ${folderOf(name)}`),
    );
    expect([...new Set(wrong)]).toEqual(EXCEPTIONS);
  });

  it('of the client are only its own files and contract/, and no packages', () => {
    const wrong = sources.flatMap(({ path, imports }) =>
      path.startsWith(CLIENT)
        ? imports.filter((name) => !name.startsWith(CLIENT) && !name.startsWith('contract/'))
        : [],
    );
    expect(wrong).toEqual([]);
  });

  it('of import/ are only our own files, so that it can run in a browser, and on demand the readers of Parquet and workbooks', () => {
    const packages = sources.flatMap(({ path, imports }) =>
      folderOf(path) === 'import' ? imports.filter((name) => !isOurs(name)) : [],
    );
    expect(new Set(packages)).toEqual(new Set(['hyparquet', 'hyparquet-compressors', 'hucre/xlsx']));
    expect(packagesOf('import/open-file.ts')).toEqual([]);
  });

  it('of export/ are only our own files and the Parquet writer, so that it can run in a browser', () => {
    const packages = sources.flatMap(({ path, imports }) =>
      folderOf(path) === 'export' ? imports.filter((name) => !isOurs(name)) : [],
    );
    expect(new Set(packages)).toEqual(new Set(['hyparquet', 'hyparquet-writer']));
  });

  it('of the console are only its own files, the client, import/, export/ and contract/', () => {
    const allowed = /^\.\.\/\.\.\/src\/(client|import|export|contract)\//;
    const wrong = ofConsole.flatMap(({ path, imports }) =>
      imports.filter((name) => name.startsWith('..') && !allowed.test(name)).map((name) => `${path} -> ${name}`),
    );
    expect(wrong).toEqual([]);
    expect(ofConsole.flatMap(({ imports }) => imports).filter((name) => allowed.test(name)).length).toBeGreaterThan(50);
  });

  it('of codec/ go only through its public interface, and it imports nothing but contract/', () => {
    const outside = sources.flatMap(({ path, imports }) =>
      folderOf(path) === 'codec'
        ? []
        : imports.filter((name) => name.startsWith('codec/') && name !== 'codec/index.ts'),
    );
    const inside = sources.flatMap(({ path, imports }) =>
      folderOf(path) === 'codec' ? imports.filter((name) => isOurs(name) && !/^(codec|contract)\//.test(name)) : [],
    );
    expect({ outside, inside }).toEqual({ outside: [], inside: [] });
  });

  it('have no cycles', () => {
    expect(findCycle()).toBeUndefined();
  });

  it('at startup are few packages: what only some requests or settings need is loaded on demand', () => {
    const loaded = [
      'cli/main.ts',
      'cli/serve.ts',
      'engine/open-engine.ts',
      'http/http-server.ts',
      'http/metrics-listener.ts',
    ];
    expect(packagesOf(...loaded)).toEqual([
      'ajv',
      'ajv-formats',
      'commander',
      'fastify',
      'find-my-way',
      'ipaddr.js',
      'lru-cache',
      'negotiator',
      'pg-connection-string',
      'pino',
      'prom-client',
    ]);
  });

  it('of pg/ go only through its public interface, and it imports nothing of ours', () => {
    const outside = sources.flatMap(({ path, imports }) =>
      folderOf(path) === 'pg'
        ? []
        : imports
            .filter((name) => name.startsWith('pg/') && name !== 'pg/index.ts' && name !== 'pg/protocol.ts')
            .map((name) => `${path} -> ${name}`),
    );
    const inside = sources.flatMap(({ path, imports }) =>
      folderOf(path) === 'pg' ? imports.filter((name) => isOurs(name) && !name.startsWith('pg/')) : [],
    );
    expect({ outside, inside }).toEqual({ outside: [], inside: [] });
  });

  it('of the Postgres protocol occur only where a client is connected to a server, not where SQL is run', () => {
    const users = sources.filter(({ imports }) => imports.includes('pg/protocol.ts')).map(({ path }) => path);
    expect(users.filter((path) => folderOf(path) !== 'postgres-port')).toEqual([
      // It ends the connection that the port hands from a client to a server.
      'engine/sessions/client-session.ts',
      'moves/pg-dump.ts',
    ]);
  });

  it('never include another Postgres client', () => {
    expect(sources.filter(({ imports }) => imports.includes('pg')).map(({ path }) => path)).toEqual([]);
  });
});

describe('the map (docs/architecture.md)', () => {
  const map = readFileSync(new URL('../docs/architecture.md', import.meta.url), 'utf8');

  it('names a file for each step of a batch, of events, of changes and of free SQL, by its whole path', () => {
    const tables = Array.from(map.matchAll(/^\| Step .*\n\| -.*\n((?:\|.*\n)+)/gm), ([, rows = '']) =>
      rows.trimEnd().split('\n'),
    );
    const files = tables.map((rows) => rows.map((row) => /\| `([\w/-]+\.ts)` +\|$/.exec(row)?.[1] ?? row));
    const paths = new Set(sources.map(({ path }) => path));
    expect(files.flat().filter((file) => !paths.has(file))).toEqual([]);
    expect(files.map((list) => list.length > 6)).toEqual([true, true, true, true]);
  });

  it('names every file of tenancy/ that is in no folder of it, and every file at the top of src', () => {
    const flat = sources.map(({ path }) => path).filter((path) => /^(tenancy\/)?[^/]+$/.test(path));
    const nameOf = (path: string) => path.replace('tenancy/', '').replace('.ts', '');
    const unnamed = flat.filter((path) => !map.includes(`\`${nameOf(path)}\``));
    expect(unnamed).toEqual([]);
  });
});

describe('a single place', () => {
  it('reads the command line and the environment: cli/, and the code that reads the URL of an added server', () => {
    expect(filesWith(/\bprocess\.(env|argv)\b/, 'cli/')).toEqual(['tenancy/server-url.ts']);
  });

  it('writes a status of 400 or more: the table of codes, through http/response/error-exit.ts', () => {
    const literal = /\b(status|statusCode|code|writeHead)\b["']?\s*[(=:]\s*[45]\d\d\b|HTTP\/1\.1 [45$]/;
    expect(filesWith(literal, 'contract/errors.ts', 'http/response/error-exit.ts')).toEqual([]);
  });

  it('reads the clock for stored or displayed times; durations use performance.now(), which clock corrections do not affect', () => {
    expect(sources.filter(({ text }) => text.includes('Date.now()')).map(({ path }) => path)).toEqual([
      'backup/physical/archive-state.ts',
      'backup/physical/wal-archive.ts',
      'cli/audit.ts',
      'cli/token.ts',
      'client/transport.ts',
      'db/receipts.ts',
      'embedded/server-folder.ts',
      'engine/access/tokens.ts',
      'engine/backup-plan.ts',
      'engine/events/track.ts',
      'feed/feed-log.ts',
      'feed/webhooks/webhooks.ts',
      'http/observability/backup-metrics.ts',
      'import/record-sender.ts',
      'pg/replication.ts',
      'tenancy/server-facts.ts',
    ]);
  });

  it('an error is ignored only for a reason, which is in a comment on that line or above it', () => {
    const ignored =
      /\.catch\(\(\) => (\{\}|undefined|null|''|\[\]|true|false|NaN)\)|^\s*\(\) => (\{\}|undefined|null),?$/;
    const scripts = fileURLToPath(new URL('../scripts/', import.meta.url));
    const ofScripts = filesOf(scripts, /\.mjs$/).map((path) => ({
      path,
      text: readFileSync(join(scripts, path), 'utf8'),
    }));
    const silent = [...sources, ...ofConsole, ...ofScripts].flatMap(({ path, text }) =>
      text.split('\n').flatMap((line, i, lines) => {
        const isExplained = [line, lines[i - 1] ?? ''].some((one) => /\/\/|\*\//.test(one));
        return ignored.test(line) && !isExplained ? [`${path}:${i + 1}: ${line.trim()}`] : [];
      }),
    );
    expect(silent).toEqual([]);
  });

  it('knows which kind of tenancy a project has: tenancy/; all others ask what they want to know', () => {
    const kinds = /\.fleet\b|instanceof \w*Tenancy|isOnCitus|[!=]== 'citus'/;
    // One has the answers, one compares the engine with what the operator has named, one prints it.
    const mayKnow = /^tenancy\/|^contract\/servers|^engine\/servers\/check-server|^cli\/server/;
    const found = sources.flatMap(({ path, text }) =>
      mayKnow.test(path) ? [] : text.split('\n').filter((line) => kinds.test(line)),
    );
    expect(found).toEqual([]);
  });

  it('every file opens with a comment that says what it is for, tests too', () => {
    const tests = fileURLToPath(new URL('./', import.meta.url));
    const ofTests = filesOf(tests, /^(?!.*node_modules).*\.ts$/).map((path) => ({
      path,
      text: readFileSync(join(tests, path), 'utf8'),
    }));
    const files = [...sources, ...ofConsole, ...ofTests];
    expect(files.filter(({ text }) => !/^(#!.*\n)?\/\*\*/.test(text)).map(({ path }) => path)).toEqual([]);
  });

  it('names in comments no file that does not exist, and links to nothing that its file does not mention', () => {
    const everyName = new Set(
      ['src', 'console', 'test', 'scripts', 'docs', 'bench'].flatMap((folder) =>
        filesOf(fileURLToPath(new URL(`../${folder}/`, import.meta.url)), /^(?!.*node_modules).*\.\w+$/).map((path) =>
          path.replace(/^.*\//, ''),
        ),
      ),
    );
    const wrong = [...sources, ...ofConsole].flatMap(({ path, text }) => {
      const comments = text.match(/\/\*[^]*?\*\/|^\s*\/\/.*$/gm)?.join('\n') ?? '';
      const code = text.replace(/\/\*[^]*?\*\/|^\s*\/\/.*$/gm, '');
      const files = Array.from(comments.matchAll(/`[\w./-]*?([\w-]+\.(?:ts|tsx|sql))`/g), ([, name = '']) => name);
      const links = Array.from(comments.matchAll(/\{@link (\w+)/g), ([, name = '']) => name);
      return [
        ...files.filter((name) => !everyName.has(name)),
        ...links.filter((name) => !new RegExp(`\\b${name}\\b`).test(code)),
      ].map((name) => `${path}: ${name}`);
    });
    expect(wrong).toEqual([]);
  });
});
