/** The screens: each has a folder and an entry here. */
import type { FunctionComponent } from 'preact';
import { isAdmin, hasScope, looksAtFeed, managesRoles, managesSchedules, seesPeople } from './session.js';

export interface ScreenEntry {
  /** The first part of the fragment, such as `sql` in `#/sql`. */
  readonly path: string;
  readonly label: string;
  /** Whether the session's token can do anything there. */
  isUseful(): boolean;
  load(): Promise<FunctionComponent<ScreenProps>>;
}

export interface ScreenProps {
  /** The decoded parts of the fragment after the screen's own: `['customers']` in `#/tables/customers`. */
  readonly path: readonly string[];
}

export const SCREENS: readonly ScreenEntry[] = [
  {
    path: 'sql',
    label: 'SQL',
    isUseful: () => hasScope('sql:read') || hasScope('sql:write'),
    load: async () => (await import('./sql/sql-screen.js')).SqlScreen,
  },
  {
    path: 'tables',
    label: 'Tables',
    isUseful: () => hasScope('schema:read') || hasScope('schema:write'),
    load: async () => (await import('./schema/schema-screen.js')).SchemaScreen,
  },
  {
    path: 'import',
    label: 'Import',
    isUseful: () => hasScope('data:write') && hasScope('schema:read'),
    load: async () => (await import('./import/import-screen.js')).ImportScreen,
  },
  {
    path: 'quarantine',
    label: 'Quarantine',
    isUseful: () => hasScope('sql:read'),
    load: async () => (await import('./quarantine/quarantine-screen.js')).QuarantineScreen,
  },
  {
    path: 'events',
    label: 'Events',
    isUseful: managesRoles,
    load: async () => (await import('./events/events-screen.js')).EventsScreen,
  },
  {
    path: 'changes',
    label: 'Changes',
    isUseful: () => hasScope('sql:read') || hasScope('sql:write') || looksAtFeed() || managesRoles(),
    load: async () => (await import('./changes/changes-screen.js')).ChangesScreen,
  },
  {
    path: 'webhooks',
    label: 'Webhooks',
    isUseful: looksAtFeed,
    load: async () => (await import('./webhooks/webhooks-screen.js')).WebhooksScreen,
  },
  {
    path: 'schedules',
    label: 'Schedules',
    isUseful: managesSchedules,
    load: async () => (await import('./schedules/schedules-screen.js')).SchedulesScreen,
  },
  {
    path: 'people',
    label: 'People',
    isUseful: seesPeople,
    load: async () => (await import('./subjects/people-screen.js')).PeopleScreen,
  },
  {
    path: 'segments',
    label: 'Segments',
    isUseful: managesSchedules,
    load: async () => (await import('./segments/segments-screen.js')).SegmentsScreen,
  },
  {
    path: 'roles',
    label: 'Roles',
    isUseful: managesRoles,
    load: async () => (await import('./roles/roles-screen.js')).RolesScreen,
  },
  {
    path: 'projects',
    label: 'Projects',
    isUseful: isAdmin,
    load: async () => (await import('./operate/projects-screen.js')).ProjectsScreen,
  },
  {
    path: 'servers',
    label: 'Servers',
    isUseful: isAdmin,
    load: async () => (await import('./operate/servers-screen.js')).ServersScreen,
  },
  {
    path: 'usage',
    label: 'Usage',
    isUseful: isAdmin,
    load: async () => (await import('./operate/usage-screen.js')).UsageScreen,
  },
  {
    path: 'requests',
    label: 'Requests',
    isUseful: isAdmin,
    load: async () => (await import('./operate/requests-screen.js')).RequestsScreen,
  },
  {
    path: 'audit',
    label: 'Audit log',
    isUseful: isAdmin,
    load: async () => (await import('./operate/audit-screen.js')).AuditScreen,
  },
  {
    path: 'health',
    label: 'Health',
    isUseful: isAdmin,
    load: async () => (await import('./operate/health-screen.js')).HealthScreen,
  },
];

export const usefulScreens = (): ScreenEntry[] => SCREENS.filter((screen) => screen.isUseful());
