/** The members of a backup file, and schemas of those in JSON. */
import { PROJECT_NAME_PATTERN, ROLE_NAME_PATTERN, SCOPES } from '../contract/names.js';
import { type Schema, type Static, Type } from '../contract/schema.js';
import { describes } from '../contract/validator.js';
import { FeedSettings } from '../contract/wire/changes.js';
import { EventSettings } from '../contract/wire/events.js';
import { Declaration } from '../contract/wire/subjects.js';
import { TokenLimits } from '../contract/wire/token-limits.js';
import { DistributedTable } from './distributed-tables.js';
import { BadBackup } from './tar.js';

/** Incremented with every change that an older program cannot restore. Version 1 had only dumps. */
export const FORMAT_VERSION = 2;

/** The second to last member, because it contains the result for each project. */
export const MANIFEST_MEMBER = 'manifest.json';
export const CONTROL_MEMBER = 'control.json';
/** SHA-256 of every other member, in the format of `sha256sum`. The last member. */
export const SUMS_MEMBER = 'SHA256SUMS';

export const dumpMember = (projectName: string): string => `projects/${projectName}.dump`;
/** The list of the dump's contents, from `pg_restore --list`. */
export const dumpListMember = (projectName: string): string => `projects/${projectName}.list`;

/** Policies, rights, and settings of roles. Missing in backups of earlier versions. */
export const dumpAccessMember = (projectName: string): string => `projects/${projectName}.access`;

/** The data directory of the project's server. */
export const dataMember = (projectName: string): string => `projects/${projectName}/data/`;

const Time = Type.String({ pattern: '^\\d{4}-\\d\\d-\\d\\dT[0-9:.]+Z$' });
const Optional = <S extends Schema>(schema: S) => Type.Union([schema, Type.Null()]);
const ProjectName = Type.String({ pattern: PROJECT_NAME_PATTERN });
const RoleName = Type.String({ pattern: '^[a-z0-9_]{1,63}$' });

const dump = {
  name: ProjectName,
  /** Size of the dump. */
  bytes: Type.Integer(),
  /** Names that the dump may contain. A restored project gets other names. */
  database: RoleName,
  writer: RoleName,
  reader: RoleName,
  extensions: Type.Array(Type.String()),
  /** The exact numbers of rows in the dump's snapshot. */
  tables: Type.Array(Type.Object({ name: Type.String(), rows: Type.Integer() })),
  /** The tables that a Citus cluster had distributed over its workers. Missing in backups of earlier versions. */
  distributed: Type.Optional(Type.Array(DistributedTable)),
};

/** Major versions of the server and of pg_dump. */
const versions = { postgres: Type.Integer(), pg_dump: Type.Integer() };

/** A dump, which can be restored on any server of this version or later. */
const LogicalProject = Type.Object({ kind: Type.Literal('logical'), ...dump, ...versions });
export type LogicalProject = Static<typeof LogicalProject>;

const Lsn = Type.String({ pattern: '^[0-9A-F]{1,8}/[0-9A-F]{1,8}$' });

const copy = {
  /** Size of all files. */
  bytes: Type.Integer(),
  /** Recovery begins here, and must reach `wal_stop`. */
  wal_start: Lsn,
  wal_stop: Lsn,
  timeline: Type.Integer({ minimum: 1 }),
  wal_segment_bytes: Type.Integer({ minimum: 1 }),
  /** 0: pages have no checksums. */
  checksum_version: Type.Integer(),
  catalog_version: Type.Integer(),
  /** By the clock of the machine. */
  started_at: Time,
  ended_at: Time,
  /** All folders below the data directory, parents first; empty ones are not members of the file. */
  folders: Type.Array(Type.String()),
};

/** The files of a server, which need the same Postgres on the same platform. */
const PhysicalProject = Type.Object({
  kind: Type.Literal('physical'),
  name: ProjectName,
  /** Servers are copies of a template, so their system identifier is the same. */
  server_id: Type.String({ pattern: '^[a-z0-9]{1,63}$' }),
  /** The major version; `version` is the full one, such as `18.4`. */
  postgres: Type.Integer(),
  version: Type.String(),
  /** Node's platform and architecture, such as `linux-x64`. */
  platform: Type.String(),
  locale_provider: Type.String(),
  locale: Type.String(),
  ...copy,
});
export type PhysicalProject = Static<typeof PhysicalProject>;
/** The properties of a copied data directory. */
export type CopiedFiles = Pick<PhysicalProject, keyof typeof copy>;

const SavedProject = Type.Union<Schema<LogicalProject | PhysicalProject>>([LogicalProject, PhysicalProject]);
export type SavedProject = Static<typeof SavedProject>;

const frame = {
  /** The version of this package. */
  program_version: Type.String(),
  /** The version of the schema `_cdp` in projects' databases. */
  schema_version: Type.Integer(),
  created_at: Time,
  /** Projects that could not be saved. */
  left_out: Type.Array(Type.Object({ name: ProjectName, reason: Type.String() })),
};

export const Manifest = Type.Object({
  ...frame,
  format: Type.Literal('cdp-backup'),
  format_version: Type.Literal(FORMAT_VERSION),
  projects: Type.Array(SavedProject),
});
export type Manifest = Static<typeof Manifest>;

/** The control server of an installation with embedded servers. */
const ControlFiles = Type.Object({
  postgres: Type.Integer(),
  version: Type.String(),
  platform: Type.String(),
  ...copy,
});
export type ControlFiles = Static<typeof ControlFiles>;

/** Incremented with every change of a backup folder that an older program cannot restore. */
const FOLDER_FORMAT_VERSION = 1;

/** The manifest of the part `control` of a backup folder. */
export const FolderManifest = Type.Object({
  ...frame,
  format: Type.Literal('cdp-backup-folder'),
  format_version: Type.Literal(FOLDER_FORMAT_VERSION),
  /** The id of the installation that writes to the folder. */
  installation: Type.String(),
  /** null: the operator backs up the control database, which is in `DATABASE_URL`. */
  control: Optional(ControlFiles),
});
export type FolderManifest = Static<typeof FolderManifest>;

const ManifestV1 = Type.Object({
  ...frame,
  format: Type.Literal('cdp-backup'),
  ...versions,
  format_version: Type.Literal(1),
  projects: Type.Array(Type.Object(dump)),
});

const SavedToken = Type.Object({
  id: Type.String({ pattern: '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' }),
  name: Type.String(),
  scopes: Type.Array(Type.Enum(SCOPES)),
  /** Missing in backups of earlier versions, as the next two. */
  role: Type.Optional(Type.Nullable(Type.String({ pattern: ROLE_NAME_PATTERN }))),
  limits: Type.Optional(Type.Nullable(TokenLimits)),
  sha256: Type.String({ pattern: '^[0-9a-f]{64}$' }),
  created_at: Time,
  created_by: Type.Optional(Type.Nullable(Type.String())),
  expires_at: Optional(Time),
  revoked_at: Optional(Time),
  last_used_at: Optional(Time),
});
export type SavedToken = Static<typeof SavedToken>;

const SavedRole = Type.Object({
  name: Type.String({ pattern: ROLE_NAME_PATTERN }),
  comment: Type.Nullable(Type.String()),
  created_at: Time,
});

export type SavedRole = Static<typeof SavedRole>;

/** The projects' data from the control database. Contains no password, and nothing from which to derive one. */
export const Control = Type.Object({
  projects: Type.Array(
    Type.Object({
      name: ProjectName,
      status: Type.Enum(['active', 'inactive']),
      created_at: Time,
      /** The id of its own server; null: it has none. Missing in backups of earlier versions. */
      server_id: Type.Optional(Optional(Type.String())),
      /** null: the default of the installation that restores the project. */
      quota_bytes: Optional(Type.Integer({ minimum: 0 })),
      /** Whether the project may create schemas other than `data`. Missing in backups of earlier versions. */
      own_schemas: Type.Optional(Type.Boolean()),
      /** How it takes events of the tracking API; null: it takes none. Missing in backups of earlier versions. */
      events: Type.Optional(Optional(EventSettings)),
      /** Its feed of changes; null: it has none. Missing in backups of earlier versions. */
      feed: Type.Optional(Optional(FeedSettings)),
      /** Whose data it has, and where people are in it. Both missing in backups of earlier versions. */
      lineage: Type.Optional(Type.String({ pattern: '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' })),
      subjects: Type.Optional(Optional(Declaration)),
      /** Whether its write-ahead log was archived. Missing in backups of earlier versions. */
      archive: Type.Optional(Type.Boolean()),
      /** Roles that it has made. Missing in backups of earlier versions. */
      roles: Type.Optional(Type.Array(SavedRole)),
      tokens: Type.Array(SavedToken),
    }),
  ),
});
export type Control = Static<typeof Control>;

const isManifest = describes(Manifest);
const isManifestV1 = describes(ManifestV1);
const isControl = describes(Control);
const isFolderManifest = describes(FolderManifest);
const isSavedProject = describes(SavedProject);

/** @throws BadBackup, whose message says so if the format is newer */
export function parseManifest(bytes: Buffer): Manifest {
  const value = parseJson(bytes);
  refuseNewerFormat(value, 'cdp-backup', FORMAT_VERSION);
  if (isManifestV1(value)) return upgraded(value);
  if (!isManifest(value)) throw new BadBackup(`Its ${MANIFEST_MEMBER} is not valid`);
  return value;
}

/** @throws BadBackup */
function refuseNewerFormat(manifest: unknown, expected: string, supported: number): void {
  const { format, format_version: version } = (manifest ?? {}) as Partial<Record<keyof Manifest, unknown>>;
  if (format === expected && typeof version === 'number' && version > supported)
    throw new BadBackup(`It has format ${version}, and this program supports ${supported}: use a newer one`);
}

/** @throws BadBackup, as {@link parseManifest} */
export function parseFolderManifest(bytes: Buffer): FolderManifest {
  const value = parseJson(bytes);
  refuseNewerFormat(value, 'cdp-backup-folder', FOLDER_FORMAT_VERSION);
  if (!isFolderManifest(value)) throw new BadBackup(`Its control/${MANIFEST_MEMBER} is not valid`);
  return value;
}

export const folderManifest = (facts: Omit<FolderManifest, 'format' | 'format_version'>): FolderManifest => ({
  format: 'cdp-backup-folder',
  format_version: FOLDER_FORMAT_VERSION,
  ...facts,
});

/** The manifest of a project's part of a backup folder. @throws BadBackup */
export function parseSavedProject(bytes: Buffer): SavedProject {
  const value = parseJson(bytes);
  if (!isSavedProject(value)) throw new BadBackup(`The ${MANIFEST_MEMBER} of a project is not valid`);
  return value;
}

function upgraded({ postgres, pg_dump, ...manifest }: Static<typeof ManifestV1>): Manifest {
  const projects = manifest.projects.map((project) => ({ kind: 'logical' as const, ...project, postgres, pg_dump }));
  return { ...manifest, format_version: FORMAT_VERSION, projects };
}

/** @throws BadBackup */
export function parseControl(bytes: Buffer): Control {
  const value = parseJson(bytes);
  if (!isControl(value)) throw new BadBackup(`Its ${CONTROL_MEMBER} is not valid`);
  return value;
}

/** undefined: it is no JSON. */
export function parseJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return undefined;
  }
}
