/** A logical backup of a project as members of a backup's file: a dump, which goes into any later Postgres. */
import type { Readable } from 'node:stream';
import { findPrograms, type ProgramPlaces } from '../../backup/logical/client-programs.js';
import type { ProjectRow } from '../../tenancy/control-rows.js';
import { dumpProject, listOf } from '../../backup/logical/project-dump.js';
import { withServer } from '../../tenancy/tenancy.js';
import type { Installation } from './installation.js';
import { dumpOf, listOfDump, type SavedProject } from './manifest.js';
import { type Add, readMember } from './tar.js';

/** Adds what belongs to one project. */
export type Save = (project: ProjectRow, add: Add) => Promise<SavedProject>;

interface Dumping {
  readonly places: ProgramPlaces;
  /** The file that members are added to. */
  readonly part: string;
  /** Of mode 700. */
  readonly folder: string;
  readonly signal: AbortSignal;
}

/** @throws Error that says which of Postgres's programs are missing */
export async function dumps(installation: Installation, { places, part, folder, signal }: Dumping): Promise<Save> {
  const { control, databases, projects, tenancy } = installation;
  const major = await control.serverMajor();
  const programs = await findPrograms(places, major);
  const dump: Save = async (project, add) => {
    const { name, placement } = project;
    const { database, writer, reader } = placement;
    await projects.upgraded(project);
    // What the project did to its roles and rights must not keep it from being saved.
    await databases.restoreRights(tenancy, placement);
    const extensions = await databases.extensionsOf(tenancy, placement);
    const dumping = { tenancy, placement, programs, folder, signal };
    // null only until the dump is through.
    let member: Awaited<ReturnType<Add>> | null = null;
    const tables = await dumpProject(dumping, async (archive: Readable) => {
      member = await add(dumpOf(name), archive as AsyncIterable<Buffer>);
    });
    const { offset, size } = member as unknown as Awaited<ReturnType<Add>>;
    // Read back: a dump that pg_restore cannot list would not be one.
    const start = readMember(part, { name, offset, size });
    await add(listOfDump(name), [Buffer.from(await listOf(start, programs, signal))]);
    const versions = { postgres: major, pg_dump: programs.major };
    return { kind: 'logical', name, bytes: size, database, writer, reader, extensions, tables, ...versions };
  };
  return (project, add) => withServer(tenancy.serverOf(project.placement), () => dump(project, add));
}
