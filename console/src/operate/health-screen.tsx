/** The health of the service: small charts of its metrics while the page is open. */
import './operate.css';
import { effect, signal, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { Alert } from '../parts/announcements.js';
import { ago, count, duration, size } from '../parts/formats.js';
import { Screen } from '../parts/screen.js';
import { session } from '../session.js';
import { OF_API, quantile, rate, type Sample, takeSample, total } from './metrics.js';
import { Sparkline } from './sparkline.js';

const EVERY_MS = 2_000;
/** How soon the second sample follows the first: only two show a rate. */
const SOON_MS = 500;
/** Five minutes. */
const ROOM = 150;
/** The 99th percentile of fewer samples would fluctuate. */
const WINDOW = 15;

const REQUESTS = 'cdp_http_requests_total';
const SERVER_ERROR = /route="\/api\/.*status="5/;

const perSecond = (value: number): string =>
  `${value === 0 || value >= 10 ? count(Math.round(value)) : value.toFixed(1)}/s`;

/** Kept while other screens are shown. */
const samples = signal<readonly Sample[]>([]);
effect(() => {
  if (session.value === null) samples.value = [];
});

/** What needs an operator if it is not 0. */
const FAULTS: readonly [metric: string, label: string][] = [
  ['cdp_projects_not_starting', 'Projects that do not start'],
  ['cdp_damaged_data_total', 'Damaged data found'],
  ['cdp_archives_failing', 'Logs that are not archived'],
  ['cdp_projects_over_quota', 'Projects over their quota'],
];

/** The last backup, and what is wrong. */
function Conditions({ of }: { of: Sample }) {
  const saved = total(of, 'cdp_backup_last_success_timestamp_seconds');
  const hasFailed = total(of, 'cdp_backup_failed') === 1;
  const words = saved === undefined ? 'not scheduled' : saved === 0 ? 'none yet' : ago(saved * 1_000);
  return (
    <dl class="facts" aria-label="Conditions">
      <div>
        <dt>Last backup</dt>
        <dd>{hasFailed ? `${words}; the latest attempt failed` : words}</dd>
      </div>
      {FAULTS.map(([metric, label]) => {
        const value = total(of, metric);
        return value === undefined ? null : (
          <div key={metric}>
            <dt>{label}</dt>
            <dd>{count(value)}</dd>
          </div>
        );
      })}
    </dl>
  );
}

export function HealthScreen() {
  const error = useSignal('');
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isOver = false;
    const next = async () => {
      try {
        const taken = await takeSample();
        if (isOver) return;
        samples.value = [...samples.peek().filter(({ at }) => at > taken.at - ROOM * EVERY_MS), taken];
        error.value = '';
      } catch (thrown) {
        error.value = thrown instanceof Error ? thrown.message : String(thrown);
      }
      if (!isOver) timer = setTimeout(() => void next(), samples.peek().length === 1 ? SOON_MS : EVERY_MS);
    };
    void next();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, []);

  const seen = samples.value;
  const ages = seen.map(({ at }) => ((seen.at(-1)?.at ?? at) - at) / EVERY_MS);
  const between = <T,>(value: (before: Sample, after: Sample, i: number) => T): T[] =>
    seen.slice(1).map((after, i) => value(seen[i] as Sample, after, i + 1));
  const now = (name: string) => seen.map((each) => total(each, name) ?? null);
  const last = seen.at(-1);
  const isUp = last === undefined ? undefined : total(last, 'cdp_postgres_up') === 1;
  const p99 = between((_before, after, i) => {
    const before = seen[Math.max(0, i - WINDOW)] as Sample;
    const seconds = quantile(before, after, 'cdp_http_request_duration_seconds', 0.99);
    return seconds === null ? null : seconds * 1_000;
  });
  const rates = (name: string, of?: RegExp) => between((before, after) => rate(before, after, name, of));
  const charts: readonly [label: string, (number | null)[], format: (value: number) => string, hint: string][] = [
    ['Requests', rates(REQUESTS, OF_API), perSecond, 'All API requests, including refused ones'],
    ['Server errors', rates(REQUESTS, SERVER_ERROR), perSecond, 'Responses with a status of 500 or more'],
    ['Response time, p99', p99, duration, '99 of 100 requests of the last 30 s were faster'],
    ['Rows inserted', rates('cdp_inserted_rows_total'), perSecond, 'By batches, in all projects'],
    ['Running in Postgres', now('cdp_requests_running'), count, 'Requests that hold a slot; the others wait'],
    ['Running servers', now('cdp_project_servers_running'), count, 'Postgres servers of projects; they stop when idle'],
    ['Connections', now('cdp_project_connections'), count, 'Open to projects’ databases'],
    ['Memory', now('process_resident_memory_bytes'), size, 'Of the service itself, without its Postgres servers'],
  ];
  return (
    <Screen
      title="Health"
      about="The last five minutes of this instance, as long as this page is open"
      isBusy={seen.length < 2 && error.value === ''}
      isFocusable
      actions={
        isUp !== undefined && (
          <span class="status" data-status={isUp ? 'active' : 'down'}>
            {isUp ? 'Postgres responds' : 'Postgres does not respond'}
          </span>
        )
      }
    >
      <Alert>{error.value}</Alert>
      {last === undefined && error.value !== '' && (
        <p class="quiet">
          The charts come from <code>/metrics</code>. A proxy in front of the service may keep it to itself; Prometheus
          and the dashboard of the package show the same and keep it.
        </p>
      )}
      {seen.length < 2 && error.value === '' && <p role="status">Taking the first measurements …</p>}
      {last !== undefined && <Conditions of={last} />}
      {seen.length >= 2 && (
        <div class="charts">
          {charts.map(([label, values, format, hint]) => (
            <Sparkline key={label} label={label} values={values} ages={ages} room={ROOM} format={format} hint={hint} />
          ))}
        </div>
      )}
    </Screen>
  );
}
