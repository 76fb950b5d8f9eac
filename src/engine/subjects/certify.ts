/** After the commit of an erasure: its receipt, and the ledger in the backup folder. */
import { messageOf } from '../../contract/errors.js';
import type { ErasureOutcome, NotCovered, StillHeld } from '../../contract/wire/subjects.js';
import type { Project } from '../../db/project.js';
import type { Log } from '../../log.js';
import type { ControlDatabase } from '../../tenancy/control/control.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import type { ErasureRow } from '../../tenancy/control/subject-rows.js';
import type { Servers } from '../../tenancy/servers.js';
import { notCovered } from './coverage.js';
import { homeOf } from './declaration.js';
import { signReceipt } from './receipt.js';
import type { SubjectKeys } from './subject-keys.js';
import { readSubjectCatalog } from './subject-tables.js';

export interface CertifyServices {
  readonly control: ControlDatabase;
  readonly servers: Servers;
  readonly keys: SubjectKeys;
  readonly log: Log;
  /** How long archived write-ahead log is kept. */
  readonly archiveDays: number;
  /** When the next backup into the folder of the setting is made; null: none is scheduled. */
  readonly nextBackup: () => Date | null;
  /** Writes the ledger into the backup folder of the setting, if there is one. */
  readonly saveLedger: () => Promise<void>;
}

/**
 * Can be repeated.
 * @param mark what the project's database says of the erasure
 * @param uncovered what no declaration covers; null: not read yet
 */
export async function certify(
  services: CertifyServices,
  { id, kind, commitments }: ErasureRow,
  project: Project,
  mark: { readonly erasedAt: string; readonly result: unknown },
  uncovered: NotCovered[] | null,
  signal: AbortSignal,
): Promise<void> {
  const { control, keys, log } = services;
  const result = mark.result as ErasureOutcome;
  const receipt = await signReceipt(keys, {
    ...{ version: 1, issuer: control.instanceId, project: project.name, erasure: id, kind },
    ...{ erased_at: mark.erasedAt, issued_at: new Date().toISOString(), commitments, result },
    not_covered: uncovered ?? (await readNotCovered(control, project, signal)),
    still_held: await stillHeld(services, project.row),
  });
  await control.subjects.setErased(id, mark.erasedAt, result, receipt);
  await services.saveLedger().catch((error: unknown) => {
    // The backup folder is written to again every few seconds.
    log.warn({ error: messageOf(error) }, 'the ledger of erasures is not in the backup folder yet');
  });
}

async function readNotCovered(control: ControlDatabase, project: Project, signal: AbortSignal): Promise<NotCovered[]> {
  const stored = await control.subjects.declaration(project.id);
  const reading = { connection: 'write', signal } as const;
  const catalog = await project.read(reading, (db) => readSubjectCatalog(db, homeOf(project)));
  return notCovered(catalog, stored?.declaration ?? {});
}

/** What the service knows to hold the person still. */
async function stillHeld(
  { control, servers, archiveDays, nextBackup }: CertifyServices,
  { id, placement }: ProjectRow,
): Promise<StillHeld[]> {
  const held: StillHeld[] = [
    {
      what: 'bytes of deleted rows in the files and the write-ahead log of the database, until they are reused or an erasure with deep=true',
      until: null,
    },
  ];
  const savedAt = (await control.backups.savedAt()).get(id);
  if (savedAt !== undefined) {
    held.push({
      what: `the backup of ${savedAt.toISOString()} in the backup folder, until the next one; what other tools made of the folder is theirs`,
      until: nextBackup()?.toISOString() ?? null,
    });
  }
  const { files } = servers.tenancyOf(placement);
  if (files !== null && (await files.has(placement.server)) && (await files.archivesWal(placement.server))) {
    const until = new Date();
    until.setUTCDate(until.getUTCDate() + archiveDays);
    held.push({
      what: `archived write-ahead log, until it is ${archiveDays} days older than the newest`,
      until: until.toISOString(),
    });
  }
  held.push({
    what: 'backup files that an operator made with cdp backup, and copies outside the service',
    until: null,
  });
  return held;
}
