/** Whether and how a project takes events: a setting of the project, and the tables that all events need. */
import type { AuditOrigin } from '../../contract/audit.js';
import { EngineError } from '../../contract/errors.js';
import type { EventSettings, EventSettingsBody } from '../../contract/wire/events.js';
import type { Project } from '../../db/project.js';
import type { ControlDatabase } from '../../tenancy/control/control.js';
import type { Audit } from '../audit/audit.js';
import type { SchemaOptions } from '../schema/schema-change.js';
import { makeFixedTables } from './grow-tables.js';

interface EventServices {
  readonly control: ControlDatabase;
  readonly audit: Audit;
}

/**
 * Takes events from now on. Its tables are made, as far as they are missing.
 * @throws EngineError table_exists naming every table that is another one; table_busy, quota_exceeded, request_in_flight,
 * outcome_unknown
 */
export async function setEvents(
  services: EventServices,
  project: Project,
  { mode = 'columns', schema = 'closed', ip = true }: EventSettingsBody,
  by: AuditOrigin,
  options: SchemaOptions,
): Promise<EventSettings> {
  const settings = { mode, schema, ip };
  await makeFixedTables(project, settings, options);
  await store(services, project, settings, 'set_events', by);
  return settings;
}

/** Takes no more events. The tables stay. @throws EngineError request_in_flight, outcome_unknown */
export const dropEvents = (services: EventServices, project: Project, by: AuditOrigin): Promise<void> =>
  store(services, project, null, 'drop_events', by);

async function store(
  { control, audit }: EventServices,
  project: Project,
  settings: EventSettings | null,
  operation: string,
  by: AuditOrigin,
): Promise<void> {
  const entry = audit.entryOfChange(by, { operation });
  if ((await control.projects.setEvents(project.id, settings, entry)) !== null) return;
  throw new EngineError('request_in_flight', 'The project is being created, restored or deleted');
}
