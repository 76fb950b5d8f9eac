/** What moves need of the service. The engine hands it in. */
import type { AuditOrigin } from '../contract/audit.js';
import type { Log } from '../log.js';
import type { AuditRow } from '../tenancy/control/audit-rows.js';
import type { ProjectRow } from '../tenancy/control/control-rows.js';
import type { ControlDatabase } from '../tenancy/control/control.js';
import type { ServerRow } from '../tenancy/control/server-rows.js';
import type { ProjectDatabaseSetup } from '../tenancy/project-database-setup.js';
import type { Servers } from '../tenancy/servers.js';
import type { MoveRows } from './move-rows.js';

export interface MoveServices {
  readonly control: ControlDatabase;
  readonly moveRows: MoveRows;
  readonly servers: Servers;
  readonly databaseSetup: ProjectDatabaseSetup;
  readonly audit: MoveAudit;
  readonly log: Log;
  /** @throws EngineError not_found, database_unavailable */
  readonly projectNamed: (name: string) => Promise<ProjectRow>;
  /** @throws EngineError not_found, database_unavailable */
  readonly serverNamed: (name: string) => Promise<ServerRow>;
  /** Whether the projects on a server have reached its size limit. @throws EngineError database_unavailable */
  readonly isFull: (server: ServerRow) => Promise<boolean>;
  /** Bytes on disk, by id of the project. A project whose size cannot be measured now is left out. */
  readonly sizesOf: (projects: readonly ProjectRow[]) => Promise<ReadonlyMap<string, number>>;
  /** Called when a move has ended, with or without success. */
  readonly onEnd: (projectId: string) => void;
}

interface MoveAudit {
  /** The entry that is written with the switch; null: nothing is recorded. */
  entryOfChange(by: AuditOrigin, event: { operation: 'project.move'; object: string }): AuditRow | null;
  /** @param event `project.move` for a move that failed, `repair` for one that was settled after its process had ended */
  record(
    by: AuditOrigin,
    event: {
      operation: 'project.move' | 'repair';
      outcome: string;
      project: { readonly id: string; readonly name: string };
    },
  ): void;
}
