/** The screens: each has a folder and an entry here. */
import type { FunctionComponent } from 'preact';
import { isAdmin, may } from './session.js';

export interface Screen {
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

export const SCREENS: readonly Screen[] = [
  {
    path: 'sql',
    label: 'SQL',
    isUseful: () => may('sql:read') || may('sql:write'),
    load: async () => (await import('./sql/sql-screen.js')).SqlScreen,
  },
  {
    path: 'tables',
    label: 'Tables',
    isUseful: () => may('schema:read') || may('schema:write'),
    load: async () => (await import('./schema/schema-screen.js')).SchemaScreen,
  },
  {
    path: 'import',
    label: 'Import',
    isUseful: () => may('data:write') && may('schema:read'),
    load: async () => (await import('./import/import-screen.js')).ImportScreen,
  },
  {
    path: 'quarantine',
    label: 'Quarantine',
    isUseful: () => may('sql:read'),
    load: async () => (await import('./quarantine/quarantine-screen.js')).QuarantineScreen,
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

export const usefulScreens = (): Screen[] => SCREENS.filter((screen) => screen.isUseful());
