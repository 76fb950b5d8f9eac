/**
 * Restores projects from a backup: each is made in the normal way, with new names and rights, and then filled. Everything that
 * can be refused is refused before anything is made; a project that fails on the way is taken away again.
 */
import { open } from 'node:fs/promises';
import { EngineError } from '../../contract/errors.js';
import { type ClientPrograms, findPrograms, type ProgramPlaces } from '../../postgres/dump/client-programs.js';
import type { StoredToken } from '../../postgres/control-rows.js';
import { countRows, type TableRows } from '../../postgres/dump/project-dump.js';
import { loadProject } from '../../postgres/dump/project-load.js';
import { serverMajor } from '../../postgres/server-facts.js';
import type { Origin } from '../audit/audit.js';
import { isProjectName, type NewProject } from '../projects.js';
import { described, type Installation, messageOf } from './backup.js';
import {
  type Control,
  CONTROL,
  type DumpedProject,
  dumpOf,
  listOfDump,
  MANIFEST,
  type Manifest,
  parseControl,
  parseManifest,
  parseSums,
  SUMS,
} from './manifest.js';
import { withPrivateFolder } from './private-folder.js';
import { BadArchive, hashMember, type Member, readMember, readMembers } from './tar.js';

export interface RestoreOptions {
  readonly file: string;
  /** One project of the backup; null: all. */
  readonly project: string | null;
  /** Another name for the one project. */
  readonly as: string | null;
  readonly places: ProgramPlaces;
  /** For the audit log. */
  readonly by: Origin;
  /** Aborted: the project that is being restored goes away again. */
  readonly signal: AbortSignal;
  readonly progress: (line: string) => void;
}

interface RestoredProject {
  readonly name: string;
  readonly tables: readonly TableRows[];
  /** What the dump holds and this server does not take, in words. */
  readonly leftOut: readonly string[];
}

export interface Restored {
  readonly projects: readonly RestoredProject[];
  readonly failed: readonly { name: string; reason: string }[];
}

/** Lines between the first version that sets `transaction_timeout` when it restores, and the first server that knows it. */
const TRANSACTION_TIMEOUT = 17;

/**
 * @throws Error with what to do, EngineError not_found, unique_violation, invalid_name, invalid_request: nothing was changed
 */
export async function restore(installation: Installation, options: RestoreOptions): Promise<Restored> {
  const { file, progress, signal } = options;
  const archive = await openArchive(file);
  const chosen = chooseProjects(archive, options);
  await refuseWhatIsThere(installation, chosen);
  await refuseMissingExtensions(installation, archive.manifest, chosen);
  const programs = await fittingPrograms(installation, archive.manifest, options.places);
  progress('Checking the backup');
  for (const { dumped } of chosen) {
    for (const name of [dumpOf(dumped.name), listOfDump(dumped.name)]) await archive.verify(name);
    signal.throwIfAborted();
  }

  const projects: RestoredProject[] = [];
  const failed: { name: string; reason: string }[] = [];
  for (const one of chosen) {
    progress(`${one.name}: is being restored`);
    try {
      const restored = await restoreProject(installation, archive, one, programs, options);
      projects.push(restored);
      progress(`${one.name}: ${described(restored.tables)}`);
      for (const what of restored.leftOut) progress(`${one.name}: left out, ${what}`);
    } catch (error) {
      if (signal.aborted || chosen.length === 1) throw error;
      failed.push({ name: one.name, reason: messageOf(error) });
      progress(`${one.name}: NOT RESTORED: ${messageOf(error)}`);
    }
  }
  return { projects, failed };
}

interface Archive {
  readonly file: string;
  readonly manifest: Manifest;
  readonly control: Control;
  readonly member: (name: string) => Member;
  /** @throws BadArchive where a member's content is not what was written */
  readonly verify: (name: string) => Promise<void>;
}

/** Looks at the whole frame of the file, and at the content of its small members. @throws Error naming the file */
async function openArchive(file: string): Promise<Archive> {
  const handle = await open(file, 'r');
  try {
    const members = await readMembers(handle);
    const member = (name: string): Member => {
      const found = members.get(name);
      if (found === undefined) throw new BadArchive(`It has no ${name}`);
      return found;
    };
    const read = async (name: string): Promise<Buffer> => {
      const parts: Buffer[] = [];
      for await (const part of readMember(file, member(name))) parts.push(part as Buffer);
      return Buffer.concat(parts);
    };
    const sums = parseSums(await read(SUMS));
    const verify = async (name: string): Promise<void> => {
      if ((await hashMember(file, member(name))) !== sums.get(name)) {
        throw new BadArchive(`It is damaged: ${name} is not what was written`);
      }
    };
    await verify(MANIFEST);
    await verify(CONTROL);
    const manifest = parseManifest(await read(MANIFEST));
    return { file, manifest, control: parseControl(await read(CONTROL)), member, verify };
  } catch (error) {
    throw error instanceof BadArchive ? new Error(`${file} cannot be restored. ${error.message}`) : error;
  } finally {
    await handle.close();
  }
}

interface Chosen {
  /** That it gets. */
  readonly name: string;
  readonly dumped: DumpedProject;
  readonly status: 'active' | 'inactive';
  readonly createdAt: Date;
  readonly quotaBytes: number | null;
  readonly tokens: readonly StoredToken[];
}

function chooseProjects({ file, manifest, control }: Archive, { project, as }: RestoreOptions): Chosen[] {
  if (as !== null && project === null) {
    throw new EngineError('invalid_request', '--as names one project: give --project as well');
  }
  if (as !== null && !isProjectName(as)) throw new EngineError('invalid_name', `"${as}" is no name of a project`);
  const dumps = manifest.projects.filter(({ name }) => project === null || name === project);
  if (project !== null && dumps.length === 0) {
    const names = manifest.projects.map(({ name }) => name).join(', ');
    throw new EngineError('not_found', `There is no project "${project}" in ${file}; it holds ${names || 'none'}`);
  }
  return dumps.map((dumped) => {
    const known = control.projects.find(({ name }) => name === dumped.name);
    if (known === undefined) throw new Error(`${file} cannot be restored. Its ${CONTROL} does not know ${dumped.name}`);
    const { status, created_at: createdAt, quota_bytes: quotaBytes } = known;
    // A copy under another name has no tokens: they speak for the project that they were made for.
    const tokens = as === null ? known.tokens.map(storedToken) : [];
    return { name: as ?? dumped.name, dumped, status, createdAt: new Date(createdAt), quotaBytes, tokens };
  });
}

const date = (text: string | null): Date | null => (text === null ? null : new Date(text));

const storedToken = (token: Control['projects'][number]['tokens'][number]): StoredToken => ({
  id: token.id,
  projectId: null,
  name: token.name,
  scopes: token.scopes,
  sha256: Buffer.from(token.sha256, 'hex'),
  createdAt: new Date(token.created_at),
  expiresAt: date(token.expires_at),
  revokedAt: date(token.revoked_at),
  lastUsedAt: date(token.last_used_at),
});

async function refuseWhatIsThere({ projects, control }: Installation, chosen: readonly Chosen[]): Promise<void> {
  const names = new Set((await projects.list()).filter(isReady).map(({ name }) => name));
  const there = chosen.filter(({ name }) => names.has(name)).map(({ name }) => `"${name}"`);
  if (there.length > 0) {
    throw new EngineError('unique_violation', `There is a project of this name already: ${there.join(', ')}`, {
      hint: 'Nothing was restored. Restore one project under another name: --project NAME --as NEWNAME',
    });
  }
  const tokens = await control.knownTokens(chosen.flatMap((project) => project.tokens));
  if (tokens.length === 0) return;
  throw new EngineError('unique_violation', `Tokens of the backup belong to a project here: ${tokens.join(', ')}`, {
    hint: 'Nothing was restored. A copy under another name comes without tokens: --project NAME --as NEWNAME',
  });
}

const isReady = ({ status }: { status: string }): boolean => status === 'active' || status === 'inactive';

async function refuseMissingExtensions(
  { provisioning }: Installation,
  { schema_version: version }: Manifest,
  chosen: readonly Chosen[],
): Promise<void> {
  if (version > provisioning.schemaVersion) throw new Error('The backup was made by a newer program: use that one');
  const here = new Set(await provisioning.extensions());
  const missing = new Set(chosen.flatMap(({ dumped }) => dumped.extensions.filter((name) => !here.has(name))));
  if (missing.size === 0) return;
  throw new Error(
    `The projects of the backup have extensions that new projects here would not have: ${[...missing].join(', ')}. ` +
      'Name them in the setting extensions (CDP_EXTENSIONS)',
  );
}

async function fittingPrograms({ address }: Installation, manifest: Manifest, places: ProgramPlaces) {
  const major = await serverMajor(address);
  if (manifest.postgres > major) {
    throw new Error(
      `The backup was made on Postgres ${manifest.postgres}, and this is ${major}: it takes that or later`,
    );
  }
  const most = major < TRANSACTION_TIMEOUT ? TRANSACTION_TIMEOUT - 1 : undefined;
  return findPrograms(places, Math.max(major, manifest.pg_dump), most);
}

async function restoreProject(
  installation: Installation,
  archive: Archive,
  chosen: Chosen,
  programs: ClientPrograms,
  { by, signal }: RestoreOptions,
): Promise<RestoredProject> {
  const { address, credentials, projects, control } = installation;
  const { name, dumped, status, tokens } = chosen;
  let result: RestoredProject | null = null;
  await projects.create(name, by, async ({ id, placement }: NewProject) => {
    const list = Buffer.concat(await readAll(archive, listOfDump(dumped.name))).toString();
    const leftOut = await withPrivateFolder((folder) =>
      loadProject({ address, credentials, placement, programs, folder, signal }, dumped, list, () =>
        readMember(archive.file, archive.member(dumpOf(dumped.name))),
      ),
    );
    const tables = await countRows(address, credentials, placement, signal);
    if (JSON.stringify(tables) !== JSON.stringify(dumped.tables)) {
      throw new Error('What is in the tables after the restore is not what was in them when the backup was made');
    }
    signal.throwIfAborted();
    await control.adoptHistory(id, chosen, tokens);
    result = { name, tables, leftOut };
    return status;
  });
  return result as unknown as RestoredProject;
}

async function readAll({ file, member }: Archive, name: string): Promise<Buffer[]> {
  const parts: Buffer[] = [];
  for await (const part of readMember(file, member(name))) parts.push(part as Buffer);
  return parts;
}
