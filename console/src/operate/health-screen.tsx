/** The health of the service: small charts of its metrics while the page is open. */
import './operate.css';
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { Alert } from '../parts/alert.js';
import { count, duration, size } from '../parts/numbers.js';
import { Screen } from '../parts/screen.js';
import { OF_API, quantile, rate, type Sample, takeSample, total } from './metrics.js';
import { Sparkline } from './sparkline.js';

const EVERY_MS = 2_000;
/** Five minutes. */
const ROOM = 150;
/** The 99th percentile of fewer samples would fluctuate. */
const WINDOW = 15;

const REQUESTS = 'cdp_http_requests_total';
const SERVER_ERROR = /route="\/api\/.*status="5/;

const perSecond = (value: number): string =>
  `${value === 0 || value >= 10 ? count(Math.round(value)) : value.toFixed(1)}/s`;

export function HealthScreen() {
  const samples = useSignal<readonly Sample[]>([]);
  const error = useSignal('');
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isOver = false;
    const next = async () => {
      try {
        const taken = await takeSample();
        samples.value = [...samples.value.slice(-ROOM), taken];
        error.value = '';
      } catch (thrown) {
        error.value = thrown instanceof Error ? thrown.message : String(thrown);
      }
      if (!isOver) timer = setTimeout(() => void next(), EVERY_MS);
    };
    void next();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, []);

  const seen = samples.value;
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
      isBusy={last === undefined && error.value === ''}
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
      <div class="charts">
        {charts.map(([label, values, format, hint]) => (
          <Sparkline key={label} label={label} values={values} room={ROOM} format={format} hint={hint} />
        ))}
      </div>
    </Screen>
  );
}
