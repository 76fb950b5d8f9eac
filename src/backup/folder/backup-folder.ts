/**
 * A backup in a folder of plain files, for tools that keep copies of it. It has parts: `control`, and
 * `projects/NAME` for each project. A part has a manifest, its files, and checksums of both, and is replaced as a whole
 * by rename. The names of its members are those of a backup file.
 */
import { createReadStream } from 'node:fs';
import { lstat, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { messageOf } from '../../contract/errors.js';
import { isProjectName } from '../../contract/names.js';
import { exists, isMissing, namesIn } from '../../files.js';
import type { BackupSource } from '../backup-source.js';
import {
  type Control,
  CONTROL_MEMBER,
  FORMAT_VERSION,
  type FolderManifest,
  type Manifest,
  MANIFEST_MEMBER,
  parseControl,
  parseFolderManifest,
  parseSavedProject,
  type SavedProject,
  SUMS_MEMBER,
} from '../manifest.js';
import { IS_SEGMENT } from '../physical/wal-archive.js';
import { bytesOf, parseSums, verifySum } from '../sums.js';
import { BadBackup } from '../tar.js';

/** The part with the control database. */
export const CONTROL_PART = 'control';
export const projectPart = (name: string): string => join('projects', name);

/** Archived write-ahead log, in a folder for each server's id. */
export const ARCHIVE_FOLDER = 'archive';

/** Parts that are being written, and parts that have just been replaced. Neither is of interest to a reader. */
export const NEW_PARTS = '.new';
export const OLD_PARTS = '.old';

/** The data directory of the control server, in its part. */
export const CONTROL_DATA = 'data/';

/** The folder of a part. If the backup was killed between its two renames, the previous one. @returns null: none */
async function partAt(folder: string, part: string): Promise<string | null> {
  for (const path of [join(folder, part), join(folder, OLD_PARTS, part)]) if (await exists(path)) return path;
  return null;
}

/** The names of the projects that have a part. */
export async function savedProjects(folder: string): Promise<string[]> {
  const names = [...(await namesIn(join(folder, 'projects'))), ...(await namesIn(join(folder, OLD_PARTS, 'projects')))];
  return [...new Set(names)].filter(isProjectName);
}

/** One part: its files, by their names in it. */
export class Part {
  private constructor(
    readonly path: string,
    readonly sums: ReadonlyMap<string, string>,
  ) {}

  /** @returns null if there is no such part. @throws BadBackup */
  static async open(folder: string, name: string): Promise<Part | null> {
    const path = await partAt(folder, name);
    if (path === null) return null;
    const sums = await readFile(join(path, SUMS_MEMBER)).catch((error: unknown) => {
      throw isMissing(error) ? new BadBackup(`It has no ${join(name, SUMS_MEMBER)}`) : error;
    });
    return new Part(path, parseSums(sums));
  }

  read(name: string): Readable {
    return createReadStream(join(this.path, name));
  }

  /** @throws BadBackup if the file is missing or damaged */
  async verify(name: string): Promise<void> {
    await verifySum(this.read(name), name, this.sums).catch((error: unknown) => {
      throw isMissing(error) ? new BadBackup(`It has no ${name}`) : error;
    });
  }

  /** A small file, verified. @throws BadBackup */
  async content(name: string): Promise<Buffer> {
    await this.verify(name);
    return bytesOf(this.read(name));
  }

  /** Files that have no checksum: someone has added them. */
  async unexpectedFiles(): Promise<string[]> {
    const entries = await readdir(this.path, { recursive: true, withFileTypes: true });
    const names = entries
      .filter((entry) => !entry.isDirectory())
      .map((entry) => join(entry.parentPath, entry.name).slice(this.path.length + 1));
    return names.filter((name) => name !== SUMS_MEMBER && !this.sums.has(name));
  }
}

interface ProjectPart {
  readonly part: Part;
  readonly saved: SavedProject;
}

/**
 * The part of a project. A backup that was killed may have given it the name that the project has now, or its place to
 * another that has the name now.
 * @throws BadBackup
 */
async function partOfProject(folder: string, name: string, serverId: string | null): Promise<ProjectPart | null> {
  const open = async (part: Part): Promise<ProjectPart> => ({ part, saved: await savedIn(part) });
  const isIt = ({ saved }: ProjectPart) => saved.kind !== 'physical' || saved.server_id === serverId;
  const own = await Part.open(folder, projectPart(name));
  const found = own === null ? null : await open(own);
  if (found !== null && isIt(found)) return found;
  if (serverId === null) return null;
  for (const place of [folder, join(folder, OLD_PARTS)]) {
    for (const other of await namesIn(join(place, 'projects'))) {
      const candidate = await Part.open(place, projectPart(other))
        .then((part) => part && open(part))
        // One that is damaged is not of interest, unless it has the project's name.
        .catch(() => null);
      if (candidate !== null && candidate.saved.kind === 'physical' && isIt(candidate)) return candidate;
    }
  }
  return null;
}

/** The manifest of a project's part; null: there is none. @throws BadBackup */
export async function savedProjectIn(folder: string, name: string): Promise<SavedProject | null> {
  const part = await Part.open(folder, projectPart(name));
  return part === null ? null : savedIn(part);
}

const savedIn = async (part: Part): Promise<SavedProject> => parseSavedProject(await part.content(MANIFEST_MEMBER));

export class BackupFolder implements BackupSource {
  private constructor(
    readonly path: string,
    readonly folderManifest: FolderManifest,
    readonly manifest: Manifest,
    readonly control: Control,
    readonly controlPart: Part,
    private readonly found: {
      readonly parts: ReadonlyMap<string, Part>;
      /** Why the parts of other projects cannot be read. */
      readonly damaged: ReadonlyMap<string, string>;
    },
    private readonly archives: ReadonlySet<string>,
  ) {}

  /** Reads the manifests. Projects with a damaged one are left out. @throws Error that names the folder */
  static async open(path: string): Promise<BackupFolder> {
    try {
      const controlPart = await Part.open(path, CONTROL_PART);
      if (controlPart === null)
        throw new BadBackup('It is not a backup folder of cdp, or its first backup did not end');
      const folderManifest = parseFolderManifest(await controlPart.content(MANIFEST_MEMBER));
      const control = parseControl(await controlPart.content(CONTROL_MEMBER));
      const parts = new Map<string, Part>();
      const damaged = new Map<string, string>();
      const projects: SavedProject[] = [];
      for (const { name, server_id: serverId } of control.projects) {
        // The others can be restored.
        const found = await partOfProject(path, name, serverId ?? null).catch((error: unknown) => {
          if (!(error instanceof BadBackup)) throw error;
          damaged.set(name, error.message);
          return null;
        });
        if (found === null) continue;
        parts.set(name, found.part);
        projects.push({ ...found.saved, name });
      }
      const { program_version, schema_version, created_at } = folderManifest;
      const left_out = [...folderManifest.left_out, ...Array.from(damaged, ([name, reason]) => ({ name, reason }))];
      const frame = { program_version, schema_version, created_at, left_out };
      const manifest: Manifest = { format: 'cdp-backup', format_version: FORMAT_VERSION, ...frame, projects };
      const archives = new Set(await namesIn(join(path, ARCHIVE_FOLDER)));
      return new BackupFolder(path, folderManifest, manifest, control, controlPart, { parts, damaged }, archives);
    } catch (error) {
      throw error instanceof BadBackup ? new Error(`${path} cannot be restored. ${error.message}`) : error;
    }
  }

  has(member: string): boolean {
    const [part, name] = this.find(member);
    return part?.sums.has(name) === true;
  }

  namesBelow(folder: string): string[] {
    const [part, prefix] = this.find(folder);
    const start = folder.slice(0, folder.length - prefix.length);
    return [...(part?.sums.keys() ?? [])].filter((name) => name.startsWith(prefix)).map((name) => `${start}${name}`);
  }

  read(member: string): Readable {
    const [part, name] = this.find(member);
    if (part === undefined) throw new BadBackup(`It has no ${member}`);
    return part.read(name);
  }

  async content(member: string): Promise<Buffer> {
    return bytesOf(this.read(member));
  }

  async verify(member: string): Promise<void> {
    const [part, name] = this.find(member);
    if (part === undefined) throw new BadBackup(`It has no ${member}`);
    await part.verify(name);
  }

  archiveOf(serverId: string): string | null {
    return this.archives.has(serverId) ? join(this.path, ARCHIVE_FOLDER, serverId) : null;
  }

  /** @throws BadBackup */
  async verifyControl(signal: AbortSignal): Promise<void> {
    for (const name of this.controlPart.sums.keys()) {
      signal.throwIfAborted();
      await this.controlPart.verify(name);
    }
  }

  /** The files of the control server. */
  controlFiles(): { readonly path: string; readonly content: () => Readable }[] {
    return [...this.controlPart.sums.keys()]
      .filter((name) => name.startsWith(CONTROL_DATA))
      .map((name) => ({ path: name.slice(CONTROL_DATA.length), content: () => this.controlPart.read(name) }));
  }

  async *faults(signal: AbortSignal): AsyncGenerator<string> {
    const parts: [string, Part][] = [
      [CONTROL_PART, this.controlPart],
      ...Array.from(this.found.parts, ([name, part]): [string, Part] => [projectPart(name), part]),
    ];
    for (const [place, part] of parts) {
      for (const name of part.sums.keys()) {
        signal.throwIfAborted();
        const fault = await part.verify(name).then(() => null, messageOf);
        if (fault !== null) yield `${place}: ${fault}`;
      }
      for (const name of await part.unexpectedFiles()) yield `${place}: ${name} is not of the backup`;
    }
    for (const { name } of this.control.projects)
      if (!this.found.parts.has(name))
        yield `${projectPart(name)}: ${this.found.damaged.get(name) ?? 'the project is not in the backup'}`;
    yield* this.faultsOfArchives();
  }

  /** Segments have no checksums here: each of their records has one, which a recovery verifies. */
  private async *faultsOfArchives(): AsyncGenerator<string> {
    for (const saved of this.manifest.projects) {
      const folder = saved.kind === 'physical' ? this.archiveOf(saved.server_id) : null;
      if (saved.kind !== 'physical' || folder === null) continue;
      for (const name of (await readdir(folder)).filter((name) => IS_SEGMENT.test(name))) {
        const { size } = await lstat(join(folder, name));
        if (size !== saved.wal_segment_bytes) yield `${ARCHIVE_FOLDER}/${saved.server_id}: ${name} is incomplete`;
      }
    }
  }

  /** The part of a member, and its name in it. The data directory of `shop` is `projects/shop/data/`, its dump `projects/shop.dump`. */
  private find(member: string): [Part | undefined, string] {
    const [, name = '', rest = ''] = /^projects\/([^/.]+)[/.](.*)$/.exec(member) ?? [];
    return [this.found.parts.get(name), rest];
  }
}

/** The name in a project's part of a member of a backup. */
export const nameInPart = (member: string): string => member.replace(/^projects\/[^/.]+[/.]/, '');
