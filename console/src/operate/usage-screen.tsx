/** What projects have used in a month, by day or in all. Its filters are part of the URL. */
import './operate.css';
import type { UsageOfDay } from '../../../src/contract/wire/usage.js';
import { Alert } from '../parts/announcements.js';
import { ChoiceFilter, Filters } from '../parts/filters.js';
import { count, size } from '../parts/formats.js';
import { Icon } from '../parts/icon.js';
import { useLoaded } from '../parts/loaded.js';
import { Empty, Screen } from '../parts/screen.js';
import { type Column, Table } from '../parts/table.js';
import { offerFile } from '../results/download.js';
import { routeQuery } from '../route.js';
import { listUsage } from './admin-api.js';

const MONTHS = 12;

/** The use of a project on a day, or in a month. */
type Use = Omit<UsageOfDay, 'ways'>;

const SUMS = [
  'requests',
  'rows_in',
  'rows_out',
  'bytes_in',
  'bytes_out',
  'statement_seconds',
  'server_seconds',
] as const;

export function UsageScreen() {
  const query = routeQuery.value;
  const months = lastMonths();
  const month = query.get('month') ?? months[0] ?? '';
  const isByMonth = query.get('by') === 'month';
  const { value: days, error } = useLoaded(() => listUsage(month), month);
  const uses = days && (isByMonth ? inAll(days, month) : days);
  return (
    <Screen
      title="Usage"
      about="Days and months are those of UTC. Counts are at most a minute old."
      isWide
      isBusy={uses === undefined && error === ''}
      actions={
        uses !== undefined &&
        uses.length > 0 && (
          <button type="button" class="button" onClick={() => offerFile(csvOf(uses), `usage-${month}.csv`)}>
            <Icon name="download" />
            Download CSV
          </button>
        )
      }
    >
      <Filters key={query.toString()} screen="usage">
        <ChoiceFilter name="month" label="Month" choices={months.slice(1)} none={months[0] ?? ''} />
        <ChoiceFilter name="by" label="Per project and" choices={['month']} none="day" />
      </Filters>
      <Alert>{error}</Alert>
      {uses?.length === 0 && <Empty title="No usage">No project was used in {month}.</Empty>}
      {uses !== undefined && uses.length > 0 && (
        <Table
          label="Usage"
          rows={uses}
          keyOf={({ day, project_id: id }) => `${day} ${id}`}
          columns={isByMonth ? [PROJECT, ...NUMBERS] : [PROJECT, DAY, ...NUMBERS]}
        />
      )}
    </Screen>
  );
}

/** The newest first, such as `2026-11`. */
function lastMonths(): string[] {
  const now = new Date();
  return Array.from({ length: MONTHS }, (_, ago) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - ago, 1)).toISOString().slice(0, 7),
  );
}

/** Sums of each project, with its largest size. */
function inAll(days: readonly UsageOfDay[], month: string): Use[] {
  const uses = new Map<string, Use>();
  for (const { ways: _, ...day } of days) {
    const before = uses.get(day.project_id);
    const sums = Object.fromEntries(SUMS.map((name) => [name, (before?.[name] ?? 0) + day[name]]));
    const sizes = [before?.bytes_stored, day.bytes_stored].filter((bytes) => bytes != null);
    const largest = sizes.length === 0 ? null : Math.max(...sizes);
    uses.set(day.project_id, { ...day, ...sums, day: month, bytes_stored: largest });
  }
  return [...uses.values()];
}

const PROJECT: Column<Use> = {
  title: 'Project',
  cells: 'is-text',
  cell: ({ project }) => project,
  order: ({ project }) => project,
};

const DAY: Column<Use> = { title: 'Day', cell: ({ day }) => day, order: ({ day }) => day };

const number = (title: string, of: (use: Use) => number | null, shown = count): Column<Use> => ({
  title,
  class: 'is-number',
  cell: (use) => {
    const value = of(use);
    return value === null ? '' : shown(value);
  },
  order: (use) => of(use) ?? -1,
});

const rounded = (seconds: number): string => count(Math.round(seconds));

const onWideScreens = (column: Column<Use>): Column<Use> => ({ ...column, class: 'is-number wide-only' });

const NUMBERS: readonly Column<Use>[] = [
  number('Requests', (use) => use.requests),
  onWideScreens(number('Rows in', (use) => use.rows_in)),
  onWideScreens(number('Rows out', (use) => use.rows_out)),
  onWideScreens(number('Bytes in', (use) => use.bytes_in, size)),
  onWideScreens(number('Bytes out', (use) => use.bytes_out, size)),
  onWideScreens(number('Statements, s', (use) => use.statement_seconds, rounded)),
  number('Stored', (use) => use.bytes_stored, size),
  onWideScreens(number('Server, s', (use) => use.server_seconds, rounded)),
];

const FIELDS = ['day', 'project', 'project_id', ...SUMS, 'bytes_stored'] as const;

function csvOf(uses: readonly Use[]): Blob {
  const lines = uses.map((use) => FIELDS.map((name) => use[name] ?? '').join(','));
  return new Blob([[FIELDS.join(','), ...lines, ''].join('\n')], { type: 'text/csv' });
}
